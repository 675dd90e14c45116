"""Every published answer of ethereum/execution-apis is read by our schemas, whatever node it came from.

The data are not in this repository (CC0, see the README beside them): TAYHO_CONFORMANCE_DATA names their folder.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from attrs import frozen

from rpc import envelopes, methods, schemas
from rpc.answers import value_of
from rpc.envelopes import Refusal, Result
from rpc.errors import Reverted, RpcRefused
from rpc.json_text import parse_json
from rpc.members import array_of
from rpc.methods import Call, CallRequest
from rpc.quantities import Unreadable, uint256
from rpc.urls import EndpointUrl
from rpc.values import Receipt

DATA = Path(os.environ.get("TAYHO_CONFORMANCE_DATA", Path(__file__).parents[3] / "shared" / "data"))
FOLDER = DATA / "execution-apis"
URL = EndpointUrl.parse("http://published.invalid")

if not FOLDER.is_dir():
    pytest.skip(f"no published answers: {FOLDER} does not exist", allow_module_level=True)


@frozen
class Published:
    """A question and its published answer."""

    file: str
    question: dict[str, Any]
    answer: bytes

    @property
    def params(self) -> list[Any]:
        return self.question.get("params", [])


def pairs() -> Iterator[Published]:
    """Every pair of question (`>>`) and answer (`<<`), in order."""
    for path in sorted(FOLDER.glob("*/*.io")):
        question: dict[str, Any] = {}
        for line in path.read_text().splitlines():
            if line.startswith(">> "):
                question = json.loads(line[3:])
            elif line.startswith("<< "):
                yield Published(f"{path.parent.name}/{path.name}", question, line[3:].encode())


def data(text: str) -> bytes:
    return bytes.fromhex(text[2:])


def block(params: list[Any], place: int) -> methods.BlockRef:
    """The block parameter of a published question; left out it means the latest."""
    text = params[place] if len(params) > place else "latest"
    if not text.startswith("0x"):
        return text
    return data(text) if len(text) == 66 else int(text, 16)


def anything_on_call(_: list[Any]) -> Call[bytes]:
    return methods.call(CallRequest(b"\0" * 20, None), "latest")


def estimate(_: list[Any]) -> Call[int]:
    return methods.estimate_gas(CallRequest(b"\0" * 20, None))


def log_range(params: list[Any]) -> tuple[int, int] | bytes:
    wanted = params[0]
    if "blockHash" in wanted:
        return data(wanted["blockHash"])
    return int(wanted["fromBlock"], 16), int(wanted["toBlock"], 16)


def log_filter(params: list[Any]) -> Call[Any]:
    asked: dict[str, list[Any]] = params[0]
    addresses = [data(text) for text in asked.get("address", [])]
    topics = [[data(text) for text in choices or ()] for choices in asked.get("topics", [])]
    return methods.logs(log_range(params), addresses=addresses, topics=topics)


# The method as published, and the question of ours that its answer must satisfy.
ASKED: dict[str, Callable[[list[Any]], Call[Any]]] = {
    "eth_baseFee": lambda _: methods.max_priority_fee_per_gas(),
    "eth_blobBaseFee": lambda _: methods.max_priority_fee_per_gas(),
    "eth_blockNumber": lambda _: methods.block_number(),
    "eth_call": anything_on_call,
    "eth_chainId": lambda _: methods.chain_id(),
    "eth_estimateGas": estimate,
    "eth_feeHistory": lambda params: methods.fee_history(int(params[0], 16), block(params, 1), params[2]),  # pyright: ignore[reportArgumentType]
    "eth_getBalance": lambda params: methods.balance(data(params[0]), block(params, 1)),
    "eth_getBlockByHash": lambda params: methods.block_by_hash(data(params[0])),
    "eth_getBlockByNumber": lambda params: methods.block_by_number(block(params, 0)),  # pyright: ignore[reportArgumentType]
    "eth_getBlockReceipts": lambda _: Call("eth_getBlockReceipts", (), block_receipts),
    "eth_getCode": lambda params: methods.code(data(params[0]), block(params, 1)),
    "eth_getLogs": log_filter,
    "eth_getTransactionByHash": lambda params: methods.transaction_by_hash(data(params[0])),
    "eth_getTransactionCount": lambda params: methods.transaction_count(data(params[0]), block(params, 1)),
    "eth_getTransactionReceipt": lambda params: methods.transaction_receipt(data(params[0])),
    "eth_sendRawTransaction": lambda params: methods.send_raw_transaction(data(params[0])),
}


def block_receipts(answer: object) -> tuple[Receipt, ...] | None:
    return None if answer is None else array_of(schemas.receipt)(answer)


def test_every_published_answer_is_read() -> None:
    """Goal: no honest answer is refused. Method: every pair of a method we have, through envelope and schema.

    A published error must come out as a refusal, with code 3 as a revert.
    """
    read: Counter[str] = Counter()
    for published in pairs():
        ask = ASKED.get(published.question["method"])
        if ask is None:
            continue
        answer = envelopes.read_answer(parse_json(published.answer), published.question["id"])
        try:
            value_of(ask(published.params), answer, URL)
        except RpcRefused as error:
            assert isinstance(answer, Refusal), published.file
            assert isinstance(error, Reverted) == (answer.code == 3), published.file
        except Unreadable as error:
            pytest.fail(f"{published.file}: {error}")
        else:
            assert isinstance(answer, Result), published.file
        read[published.question["method"]] += 1
    assert set(read) == set(ASKED)
    assert read.total() >= 70


def test_published_questions_are_asked_as_we_ask() -> None:
    """Goal: our parameters are the published ones. Method: compare them wherever there is one way to write them."""
    compared = 0
    for published in pairs():
        ask = ASKED.get(published.question["method"])
        if ask is None or published.question["method"] in {"eth_call", "eth_estimateGas", "eth_getBlockReceipts"}:
            continue
        ours = json.loads(envelopes.single_request(1, ask(published.params)))["params"]
        theirs = published.params
        # Left out where they write the same otherwise: the block, a hash without EIP-1898, any topic as [].
        if len(theirs) != len(ours) or any(word in published.file for word in ("blockhash", "wildcard", "error")):
            continue
        # The published questions ask blocks with their transactions; the header is the same.
        if published.question["method"].startswith("eth_getBlockBy"):
            ours, theirs = ours[:1], theirs[:1]
        assert ours == theirs, published.file
        compared += 1
    assert compared >= 40


def test_published_reverts_are_decoded() -> None:
    """Goal: the reasons people read. Method: the three published reverts with data."""
    reasons: set[str | None] = set()
    for published in pairs():
        answer = envelopes.read_answer(parse_json(published.answer), published.question["id"])
        if isinstance(answer, Refusal) and answer.code == 3:
            with pytest.raises(Reverted) as caught:
                value_of(methods.block_number(), answer, URL)
            reasons.add(caught.value.reason)
    assert reasons == {"user error", "panic 0x01: assertion failed", None}


@pytest.mark.parametrize("name", ["eth_getTransactionReceipt", "eth_getBlockReceipts"])
def test_published_receipts_of_before_byzantium_tell_no_outcome(name: str) -> None:
    """Goal: a receipt without status is no success. Method: the published receipts of the chain's first blocks."""
    old: list[Receipt] = []
    for published in pairs():
        if published.question["method"] == name:
            answer = json.loads(published.answer)["result"]
            found = answer if name == "eth_getBlockReceipts" else [answer]
            old += [schemas.receipt(document) for document in found or () if document and "status" not in document]
    assert old
    assert not any(receipt.succeeded or receipt.reverted for receipt in old)


def test_the_chain_id_is_larger_than_32_bits() -> None:
    """Goal: no width is taken for granted. Method: the published chain id, through our reader."""
    answers = [json.loads(pair.answer) for pair in pairs() if pair.question["method"] == "eth_chainId"]
    assert [uint256(answer["result"]) for answer in answers] == [0xC72DD9D5E883E]
