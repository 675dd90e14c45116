"""The published questions and answers of ethereum/execution-apis, and the question of ours that each answers.

The data are not in this repository (CC0, see the README beside them): TAYHO_CONFORMANCE_DATA names their folder.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from attrs import frozen

from rpc import methods
from rpc.json_text import parse_json
from rpc.members import array_of
from rpc.methods import Call, CallRequest
from rpc.schemas import receipt
from rpc.values import Receipt

DATA = Path(os.environ.get("TAYHO_CONFORMANCE_DATA", Path(__file__).parents[3] / "shared" / "data"))
FOLDER = DATA / "execution-apis"


@frozen
class Published:
    """A question and its published answer."""

    file: str
    question: dict[str, Any]
    answer: bytes

    @property
    def method(self) -> str:
        return self.question["method"]

    @property
    def params(self) -> list[Any]:
        return self.question.get("params", [])

    @property
    def result(self) -> Any:
        """The answer's result as our JSON reader gives it; None where it is null or an error."""
        document: Any = parse_json(self.answer)
        return document.get("result")

    @property
    def is_error(self) -> bool:
        return "error" in json.loads(self.answer)


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


def block_receipts(params: list[Any]) -> Call[tuple[Receipt, ...] | None]:
    """By hash as we ask; published are also numbers and tags, whose answers are read as strictly as can be."""
    if len(params[0]) == 66:
        return methods.block_receipts(data(params[0]))
    return Call("eth_getBlockReceipts", (), lambda answer: None if answer is None else array_of(receipt)(answer))


def proof(params: list[Any]) -> Call[Any]:
    slots = [int(slot, 16) for slot in params[1]]
    return methods.account_proof(data(params[0]), slots, block(params, 2))


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
    "eth_getBlockReceipts": block_receipts,
    "eth_getCode": lambda params: methods.code(data(params[0]), block(params, 1)),
    "eth_getLogs": log_filter,
    "eth_getProof": proof,
    "eth_getTransactionByHash": lambda params: methods.transaction_by_hash(data(params[0])),
    "eth_getTransactionCount": lambda params: methods.transaction_count(data(params[0]), block(params, 1)),
    "eth_getTransactionReceipt": lambda params: methods.transaction_receipt(data(params[0])),
    "eth_sendRawTransaction": lambda params: methods.send_raw_transaction(data(params[0])),
}
