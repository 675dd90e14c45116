"""Endpoints that tell a block of ours, honestly or not, and a plain majority over them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar, cast

from attrs import define, evolve, field, frozen

from rpc.errors import BodyTooLarge, EndpointFault, RpcError, RpcRefused
from rpc.member import Member
from rpc.proof_errors import NotProven
from rpc.reads import Call
from rpc.values import AccountProof, Header, Receipt
from tests.rpc.blocks import Block

T = TypeVar("T")

Lie = Callable[[Any], Any]
"""From the honest answer what the endpoint tells instead, or the error it gives."""


@define
class Told:
    """One endpoint. `lies` says by method what it makes of its answers; `asked` counts questions by method."""

    shown: str
    block: Block
    account: AccountProof | None = None
    lies: Mapping[str, Lie] = field(factory=dict)
    asked: Counter[str] = field(factory=Counter)

    async def ask(self, call: Call[T]) -> T:
        self.asked[call.method] += 1
        answer = self._honest(call)
        if call.method in self.lies:
            answer = self.lies[call.method](answer)
        if isinstance(answer, RpcError):
            raise answer
        return cast("T", answer)

    async def ask_many(self, calls: Sequence[Call[T]]) -> list[T | RpcError]:
        outcomes: list[T | RpcError] = []
        for call in calls:
            try:
                outcomes.append(await self.ask(call))
            except RpcError as error:
                outcomes.append(error)
        return outcomes

    def _honest(self, call: Call[Any]) -> object:
        match call.method, call.params:
            case "eth_getBlockByHash", (_, True):
                return self.block.transactions
            case "eth_getBlockByHash", _:
                return self.block.header
            case "eth_getBlockReceipts", _:
                return self.block.receipts
            case "eth_getTransactionReceipt", (name,):
                return next((each for each in self.block.receipts if f"0x{each.transaction_hash.hex()}" == name), None)
            case "eth_getProof", _:
                return self.account
            case "eth_getTransactionCount", _:
                return self.account and self.account.nonce
            case _:
                return self.account and self.account.balance_wei


@frozen
class Agreement:
    value: Any


@define
class Majority:
    """More than half of the configured say so, compared as they are."""

    members: Sequence[Member]

    async def agreed(self, call: Call[Any]) -> Agreement:
        told: list[object] = []
        for member in self.members:
            try:
                told.append(await member.ask(call))
            except RpcError:
                continue
        for answer in told:
            if 2 * told.count(answer) > len(self.members):
                return Agreement(answer)
        raise NotProven(call.method, ("no majority",))


def unserved(_: object) -> RpcError:
    return RpcRefused(-32601, "the method does not exist")


def too_large(_: object) -> RpcError:
    return EndpointFault("somewhere", BodyTooLarge(1), "eth_getBlockReceipts")


def unknown(_: object) -> None:
    return None


def failed(receipt: Receipt) -> Receipt:
    """A success told as a failure, or the other way."""
    return evolve(receipt, status=1 - (receipt.status or 0), post_state_root=None)


def all_failed(receipts: Sequence[Receipt]) -> tuple[Receipt, ...]:
    return tuple(map(failed, receipts))


def other_root(header: Header) -> Header:
    return evolve(header, receipts_root=bytes(32))
