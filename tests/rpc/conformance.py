"""What proof and schema catch of the published answers: every value is changed, one bit at a time.

    python -m tests.rpc.conformance [--json] [--every-bit]

Each value of an answer (each string of hex in it) has single bits of its text's digits flipped: eight spread over it,
or with --every-bit all. A flip is caught by the schema (the answer is refused as unreadable), by the proof (the answer
is refuted), or it is unread (our value is the same as before: a member that we do not use). Else it is left to the
votes; `proven` answers must leave nothing to them.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import attrs
from attrs import frozen

from rpc import proofs, schemas
from rpc.block_transactions import SignedTransaction, block_transactions
from rpc.errors import RpcError
from rpc.members import array_of
from rpc.quantities import Unreadable
from rpc.values import Header, Receipt
from tayho.custody.recovery import recovered
from tests.conformance.published import ASKED, FOLDER, Published, pairs

FLIPS_PER_VALUE = 8
PROVEN = {"eth_getBlockByHash", "eth_getBlockByNumber", "eth_getBlockReceipts", "eth_getProof"}

Path = tuple[str | int, ...]


@frozen
class Provable:
    """A published answer with what proves it. `read` raises Unreadable, `verify` an RpcError."""

    kind: str
    document: Any
    read: Callable[[Any], Any]
    verify: Callable[[Any], None]


def values(document: object, path: Path = ()) -> Iterator[tuple[Path, str]]:
    """Every string of hex in a document."""
    if isinstance(document, dict):
        for name, member in document.items():
            yield from values(member, (*path, name))
    elif isinstance(document, list):
        for place, item in enumerate(document):
            yield from values(item, (*path, place))
    elif isinstance(document, str) and document.startswith("0x") and len(document) > 2:
        yield path, document


def flips(text: str, count: int | None) -> Iterator[str]:
    """The hex with one bit of one digit flipped; `count` of them spread evenly, or all."""
    bits = 4 * (len(text) - 2)
    chosen = range(bits) if count is None or bits <= count else [at * (bits - 1) // (count - 1) for at in range(count)]
    for bit in chosen:
        at = 2 + bit // 4
        yield f"{text[:at]}{int(text[at], 16) ^ 1 << bit % 4:x}{text[at + 1 :]}"


def changed(document: Any, path: Path, value: object) -> Any:
    """A copy with one value exchanged; all else is shared."""
    if not path:
        return value
    copy = document.copy()
    copy[path[0]] = changed(document[path[0]], path[1:], value)
    return copy


def caught(provable: Provable, count: int | None) -> Iterator[tuple[str, Path]]:
    """What catches each flip: schema, proof, unread, or votes."""
    true = provable.read(provable.document)
    for path, text in values(provable.document):
        for flipped in flips(text, count):
            yield _catcher(provable, true, changed(provable.document, path, flipped)), path


def _catcher(provable: Provable, true: Any, document: Any) -> str:
    try:
        told = provable.read(document)
    except Unreadable:
        return "schema"
    if _whole(told) == _whole(true):
        return "unread"
    try:
        provable.verify(told)
    except RpcError:
        return "proof"
    return "votes"


def _whole(value: Any) -> object:
    """The value with the fields that are no part of its equality."""
    if isinstance(value, tuple):
        return [_whole(item) for item in value]
    return attrs.asdict(value) if attrs.has(type(value)) else value


def provables() -> Iterator[Provable]:
    """Every distinct published answer that can be proven: headers, blocks in full, receipts of blocks, accounts."""
    published = list(_distinct())
    blocks = {each.result["hash"]: each.result for each in published if each.method.startswith("eth_getBlockBy")}
    for document in blocks.values():
        yield Provable("header", _header_of(document), schemas.header, proofs.verify_header)
        if any(isinstance(each, dict) for each in document["transactions"]):
            yield _block(document)
    for each in published:
        if each.method == "eth_getBlockReceipts" and each.result and each.result[0]["blockHash"] in blocks:
            yield _receipts(each.result, blocks[each.result[0]["blockHash"]])
        if each.method == "eth_getProof":
            yield _account(each, blocks)


def _distinct() -> Iterator[Published]:
    seen: set[str] = set()
    for each in pairs():
        key = each.method.removesuffix("Number").removesuffix("Hash") + json.dumps(each.result, default=str)
        if each.result is not None and key not in seen:
            seen.add(key)
            yield each


def _header_of(document: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in document.items() if name != "transactions"}


def _block(document: Mapping[str, Any]) -> Provable:
    header = schemas.header(document)

    def verify(told: tuple[SignedTransaction, ...]) -> None:
        proofs.verify_transactions(header, told)
        for transaction in told:
            proofs.sender_of(transaction, recovered)

    return Provable("transactions", {"transactions": document["transactions"]}, block_transactions, verify)


def _receipts(documents: list[Any], document: Mapping[str, Any]) -> Provable:
    header = schemas.header(document)
    transactions = block_transactions(document)

    def verify(told: tuple[Receipt, ...]) -> None:
        proofs.verify_receipts(header, told)
        for receipt, transaction in zip(told, transactions, strict=True):
            proofs.verify_receipt(header, receipt, transaction, recovered)

    return Provable("block receipts", documents, array_of(schemas.receipt), verify)


def _account(published: Published, blocks: Mapping[str, Any]) -> Provable:
    """All published proofs are of the head."""
    head: Header = max((schemas.header(document) for document in blocks.values()), key=lambda header: header.number)
    address = bytes.fromhex(published.params[0][2:])
    slots = [int(slot, 16) for slot in published.params[1]]
    return Provable(
        "account proof",
        published.result,
        schemas.account_proof,
        lambda told: proofs.verify_account(head.state_root, address, told, slots),
    )


def votable() -> Iterator[Provable]:
    """The other published answers: no proof belongs to them, so only the schema stands before the vote."""

    def nothing(_: object) -> None:
        return None

    for each in _distinct():
        if each.method in ASKED.keys() - PROVEN:
            yield Provable(f"voted: {each.method}", each.result, ASKED[each.method](each.params).parse, nothing)


def shares(every_bit: bool) -> dict[str, Counter[str]]:
    """How many flips each catches, by kind of answer."""
    counted: dict[str, Counter[str]] = {}
    for provable in (*provables(), *votable()):
        kind = counted.setdefault(provable.kind, Counter())
        kind["answers"] += 1
        for catcher, _ in caught(provable, None if every_bit else FLIPS_PER_VALUE):
            kind[catcher] += 1
    return counted


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.rpc.conformance", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--every-bit", action="store_true", help="flip every bit of every value (minutes)")
    asked = parser.parse_args()
    if not FOLDER.is_dir():
        sys.stderr.write(f"no published answers: {FOLDER} does not exist\n")
        return 1
    counted = shares(asked.every_bit)
    if asked.json:
        sys.stdout.write(json.dumps(counted, indent=2) + "\n")
        return 0
    columns = ("answers", "schema", "proof", "votes", "unread")
    sys.stdout.write(f"{'':32}" + "".join(f"{column:>10}" for column in columns) + "\n")
    for kind, counts in counted.items():
        sys.stdout.write(f"{kind:32}" + "".join(f"{counts[column]:>10}" for column in columns) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
