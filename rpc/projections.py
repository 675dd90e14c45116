"""The fields that a vote rests on: what honest nodes tell differently of one and the same thing is taken out (RPC-5).

The values of `rpc.values` leave most of it out already. What is taken out here is absent from the agreed value too:
a field that nobody voted on is one voter's word.
"""

from __future__ import annotations

from typing import TypeVar, cast

from attrs import evolve

from rpc.values import Receipt, Transaction

T = TypeVar("T")

_DYNAMIC_FEE_TYPE = 2


def voted(value: T) -> T:
    """The value without what honest nodes may tell differently. Voting again on it changes nothing."""
    match value:
        case Receipt():
            return cast("T", _receipt(value))
        case Transaction():
            return cast("T", _transaction(value))
        case _:
            return value


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
