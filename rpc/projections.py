"""The fields that a vote rests on: what honest nodes tell differently of one and the same thing is taken out (RPC-5).

The values of `rpc.values` leave most of it out already. What is taken out here is absent from the agreed value too:
a field that nobody voted on is one voter's word.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, cast

from attrs import evolve

from rpc.header_proofs import verify_header
from rpc.proof_errors import ProofRefuted, Unprovable
from rpc.values import Header, Receipt, Transaction

T = TypeVar("T")

_DYNAMIC_FEE_TYPE = 2
_OF_PROOF_OF_WORK = ("uncles_hash", "difficulty", "extra_data", "mix_hash", "nonce")


def voted(value: T) -> T:
    """The value without what honest nodes may tell differently. Voting again on it changes nothing."""
    match value:
        case Receipt():
            return cast("T", _receipt(value))
        case Transaction():
            return cast("T", _transaction(value))
        case _:
            return value


def completed(values: Mapping[str, object]) -> Mapping[str, object]:
    """What each voter said, where a header that leaves out fields of its hash is completed by one that makes the hash.

    Some nodes leave out what only proof of work needed. They say the same as who tells it all, if all else is the same:
    the hash that both name commits to the rest.
    """
    headers = {voter: value for voter, value in values.items() if isinstance(value, Header)}
    if not any(_left_out(header) for header in headers.values()):
        return values
    whole = {header.hash: header for header in headers.values() if not _left_out(header) and _makes_its_hash(header)}
    return {
        voter: _completed(value, whole.get(value.hash)) if isinstance(value, Header) else value
        for voter, value in values.items()
    }


def _left_out(header: Header) -> dict[str, None]:
    return {name: None for name in _OF_PROOF_OF_WORK if getattr(header, name) is None}


def _completed(header: Header, whole: Header | None) -> Header:
    left_out = _left_out(header)
    same = whole is not None and left_out and evolve(whole, **cast("Any", left_out)) == header
    return whole if whole is not None and same else header


def _makes_its_hash(header: Header) -> bool:
    try:
        verify_header(header)
    except (ProofRefuted, Unprovable):
        return False
    return True


def _receipt(receipt: Receipt) -> Receipt:
    """A call creates no contract: some nodes repeat an address there. The bloom follows from the events."""
    created = receipt.contract_address if receipt.to is None else None
    return evolve(receipt, contract_address=created, logs_bloom=None)


def _transaction(transaction: Transaction) -> Transaction:
    """`gasPrice` of a type 2 is a forecast while pending, and `chainId` of a legacy one is there or not.

    Both are settled by the hash. Where it is mined is left in: that is the question.
    """
    if transaction.type >= _DYNAMIC_FEE_TYPE:
        return evolve(transaction, gas_price_wei=None)
    return evolve(transaction, chain_id=None) if transaction.type == 0 else transaction
