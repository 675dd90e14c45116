"""Faults in good form: refusals, other chains, heads that are not, old data, and lies."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from typing import Any

from tests.rpc.front import behaviours as front
from tests.rpc.front.front import Front, Json
from tests.rpc.front.ground import Ground
from tests.rpc.matrix.fault import BROKEN, DECISIONS, LIES, LIES_APART, Fault, Must, demands

_OTHER_HASH = "0x" + "5a" * 32
_OTHER_ADDRESS = "0x" + "5a" * 20
_RECEIPT = {"eth_getTransactionReceipt", "eth_getBlockReceipts"}
_BLOCK = {"eth_getBlockByNumber", "eth_getBlockByHash"}


def wrong_stories(ground: Ground) -> list[Fault]:
    """Every fault of this kind, on this ground."""
    return [*_refusals(), *_chains(), *_heads(ground), *_old(ground), *_lies(), *_liars()]


def _refusals() -> Iterable[Fault]:
    """A bare refusal is an answer, if a poor one: a read may hand it on; a vote is decided by the others."""
    passing = {
        "-32005 rate limited": {"code": -32005, "message": "rate limit exceeded"},
        "-32603 internal error": {"code": -32603, "message": "internal error"},
        "header not found": {"code": -32000, "message": "header not found"},
        "code 3 for missing data": {"code": 3, "message": "missing trie node 5a5a (path ) state is not available"},
    }
    for name, error in passing.items():
        yield Fault(name, "refusal", front.refusing(error), BROKEN, read="call", vote="nonce")
    answered = demands(one=Must.NOT_BE_WRONG, ways=("read", "hedged read")) | demands(ways=DECISIONS)
    answers = {
        "revert without data": {"code": 3, "message": "execution reverted"},
        "method not found": {"code": -32601, "message": "the method does not exist"},
        "invalid params": {"code": -32602, "message": "invalid argument 0"},
    }
    for name, error in answers.items():
        methods = {"eth_call", "eth_getTransactionReceipt", "eth_getTransactionCount"}
        yield Fault(name, "refusal", front.refusing(error, methods), answered, read="call", vote="nonce")
    yield Fault(
        "invalid params under HTTP 400",
        "refusal",
        front.refusing(answers["invalid params"], methods, status=400),
        answered,
        read="call",
        vote="nonce",
    )


def _chains() -> Iterable[Fault]:
    # Over a connection whose chain was checked, another chain is a lie like any other.
    cold = demands(ways=("read", *DECISIONS))
    yield Fault("wrong chain", "chain", front.another_chain, cold)
    yield Fault("wrong chain after a reconnection", "chain", front.another_chain_after_reconnection, BROKEN)


def _heads(ground: Ground) -> Iterable[Fault]:
    """A head is what a single endpoint says it is; what is decided upon is the head that a majority has reached."""
    heads = {
        "head 0": 0,
        "stale head": ground.head - 20,
        "capped head": ground.transaction_block + 1,
        "head far ahead": ground.head + 1_000_000,
        "head of 2**63": 2**63,
    }
    for name, head in heads.items():
        yield Fault(name, "head", front.claiming_head(lambda told=head: told), LIES, vote="head")
    jumps = itertools.cycle([ground.head - 10, ground.head + 10, ground.head])
    yield Fault("jumping head", "head", front.claiming_head(lambda: next(jumps)), LIES, vote="head")


def _old(ground: Ground) -> Iterable[Fault]:
    behind = ground.head - ground.transaction_block + 2
    old = demands(one=Must.NOT_BE_WRONG_OR_NULL, every=Must.NOT_BE_WRONG_OR_NULL, ways=("read", "hedged read"))
    decided = demands(every=Must.NOT_BE_WRONG_OR_NULL, ways=DECISIONS)
    yield Fault("lags behind the transaction", "old data", front.lagging(behind), old | decided, read="receipt")
    yield Fault("lags 25 blocks", "old data", front.lagging(25), BROKEN)
    nothing: dict[str, set[str]] = {"receipt": _RECEIPT, "block": _BLOCK}
    for name, methods in nothing.items():
        yield Fault(
            f"null for a {name} that exists",
            "old data",
            front.rewording(lambda call, result: None, methods),
            old | decided,
            read="receipt" if name == "receipt" else "block",
            vote="receipt" if name == "receipt" else "block",
        )


def _lies() -> Iterable[Fault]:
    for name, reword in receipt_lies().items():
        arm = front.rewording(_in_receipts(reword), _RECEIPT)
        yield Fault(f"receipt with another {name}", "lie", arm, LIES, vote="receipt")
    for name, value in header_lies().items():
        arm = front.rewording(_with(name, value), _BLOCK)
        yield Fault(f"header with another {name}", "lie", arm, LIES, vote="block")
    for name, change in {"a higher": 1, "a lower": -1}.items():
        arm = front.rewording(_added(change), {"eth_getTransactionCount"})
        yield Fault(f"{name} nonce", "lie", arm, LIES, vote="nonce")


def receipt_lies() -> dict[str, Callable[[Json], Json]]:
    """Each field of a receipt in turn, from a true receipt to one that lies in it and is well formed."""
    fields: dict[str, Any] = {
        "status": "0x0",
        "blockHash": _OTHER_HASH,
        "blockNumber": "0x3",
        "transactionIndex": "0x1",
        "from": _OTHER_ADDRESS,
        "to": _OTHER_ADDRESS,
        "contractAddress": _OTHER_ADDRESS,
        "gasUsed": "0x5209",
        "cumulativeGasUsed": "0xfffff",
        "effectiveGasPrice": "0x1",
        "type": "0x0",
        "logs": [],
    }
    # Where its events repeat the field, they lie with it.
    told_twice = {"blockHash", "blockNumber", "transactionIndex"}

    def lie(name: str, value: object) -> Callable[[Json], Json]:
        def change(receipt: Json) -> Json:
            changed = receipt | {name: value}
            if name in told_twice:
                changed["logs"] = [event | {name: value} for event in receipt["logs"]]
            return changed

        return change

    def event_lie(name: str, value: object) -> Callable[[Json], Json]:
        return lambda receipt: receipt | {"logs": [event | {name: value} for event in receipt["logs"]]}

    events = {
        "address": _OTHER_ADDRESS,
        "data": "0x" + "00" * 31 + "06",
        "topics": ["0x" + "00" * 31 + "01"],
        "logIndex": "0x5",
    }
    return {name: lie(name, value) for name, value in fields.items()} | {
        f"log {name}": event_lie(name, value) for name, value in events.items()
    }


def header_lies() -> dict[str, object]:
    """Each field of a header that a decision may rest on, with another value in good form."""
    return {
        "hash": _OTHER_HASH,
        "parentHash": _OTHER_HASH,
        "stateRoot": _OTHER_HASH,
        "receiptsRoot": _OTHER_HASH,
        "transactionsRoot": _OTHER_HASH,
        "timestamp": "0x1",
        "gasUsed": "0x1",
        "gasLimit": "0xffffff",
        "baseFeePerGas": "0x1",
        "miner": _OTHER_ADDRESS,
    }


def _in_receipts(lie: Callable[[Json], Json]) -> front.Reword:
    def change(call: Json, result: Any) -> object:
        if isinstance(result, list):
            return [lie(receipt) for receipt in result]
        return result and lie(result)

    return change


def _with(name: str, value: object) -> front.Reword:
    return lambda call, result: result and result | {name: value}


def _added(change: int) -> front.Reword:
    return lambda call, result: hex(int(result, 16) + change)


def _liars() -> Iterable[Fault]:
    yield Fault("a consistent liar", "lie", front.forked(), LIES, vote="receipt")
    yield Fault("each lies apart", "lie", _apart, LIES_APART, vote="receipt")
    pair = {(way, "two of five"): Must.BE_RIGHT for way in DECISIONS}
    yield Fault("a colluding pair of five", "lie", front.forked(), pair, vote="receipt")


def _apart(armed: Front) -> None:
    """A lie that no other endpoint tells: every hash and amount of gas carries the endpoint's own port."""

    def lie(receipt: Json) -> Json:
        mine = f"0x{armed.door.port:064x}"
        return receipt | {
            "blockHash": mine,
            "logs": [event | {"blockHash": mine} for event in receipt["logs"]],
        }

    front.rewording(_in_receipts(lie), _RECEIPT)(armed)
    front.rewording(lambda call, result: result and result | {"hash": f"0x{armed.door.port:064x}"}, _BLOCK)(armed)
