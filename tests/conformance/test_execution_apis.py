"""Every published answer of ethereum/execution-apis is read by our schemas, whatever node it came from."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from rpc import envelopes, methods, schemas
from rpc.answers import value_of
from rpc.envelopes import Refusal, Result
from rpc.errors import Reverted, RpcRefused
from rpc.json_text import parse_json
from rpc.quantities import Unreadable, uint256
from rpc.urls import EndpointUrl
from rpc.values import Receipt
from tests.conformance.published import ASKED, FOLDER, pairs

URL = EndpointUrl.parse("http://published.invalid")
# Published with parameters that we never send: any call, blocks by tag, storage slots in short.
ASKED_OTHERWISE = {"eth_call", "eth_estimateGas", "eth_getBlockReceipts", "eth_getProof"}

if not FOLDER.is_dir():
    pytest.skip(f"no published answers: {FOLDER} does not exist", allow_module_level=True)


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
        if ask is None or published.question["method"] in {
            "eth_call",
            "eth_estimateGas",
            "eth_getBlockReceipts",
            "eth_getProof",
        }:
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
