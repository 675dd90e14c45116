"""Reads whose every answer is a majority's, all about one agreed block (RPC-5).

For the rare answer that ends something for good: a call that reverts, a state that asks for nothing any more. The same
code that read from the pool reads here once more, and only what it concludes again is believed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar, cast

from attrs import evolve

from rpc.ballots import Agreed
from rpc.errors import RpcError
from rpc.method_traits import traits_of
from rpc.quantities import as_data, as_quantity
from rpc.quorum import Quorum
from rpc.reads import Call
from rpc.values import Header

T = TypeVar("T")

_PRESENT = ("latest", "pending")
# Those that take EIP-1898's object in the place of a height.
_BY_STATE = frozenset(
    {"eth_call", "eth_estimateGas", "eth_getBalance", "eth_getCode", "eth_getStorageAt", "eth_getTransactionCount"}
)


class AgreedReads:
    """`rpc.reads.Reads` at `head`, an agreed header: "latest" and "pending" mean that block, by its hash.

    Raises NoQuorum where no majority agrees, Reverted where one says that the EVM reverts with the same data. What
    honest nodes tell differently (a price of gas, a tag such as "safe") is not agreed as a rule: do not ask it here.
    """

    def __init__(self, quorum: Quorum, head: Header) -> None:
        self._quorum = quorum
        self.head = head

    async def ask(self, call: Call[T]) -> T:
        (answer,) = await self.ask_many([call])
        if isinstance(answer, RpcError):
            raise answer
        return answer

    async def ask_many(self, calls: Sequence[Call[T]]) -> list[T | RpcError]:
        """The agreed answers in the order asked, each with its own error in place. Raises ValueError for a write."""
        known = [_known(call, self.head) for call in calls]
        asked = [pinned(call, self.head) for call, answer in zip(calls, known, strict=True) if answer is None]
        estimates = [call for call in asked if call.method == "eth_estimateGas"]
        others = [call for call in asked if call.method != "eth_estimateGas"]
        # Implementations estimate differently: whether it succeeds is the vote, and how much one voter's word.
        counted = iter(await self._quorum.agreed_many(estimates, project=_any_amount))
        agreed = iter(await self._quorum.agreed_many(others))
        found: list[T | RpcError] = []
        for call, answer in zip(calls, known, strict=True):
            if answer is not None:
                found.append(cast("T", answer))
                continue
            verdict = next(counted if call.method == "eth_estimateGas" else agreed)
            found.append(verdict.value if isinstance(verdict, Agreed) else verdict)
        return found


def pinned(call: Call[T], head: Header) -> Call[T]:
    """The same question about the head, by its hash (EIP-1898), where it asked about the present or that height."""
    place = traits_of(call.method).block_at
    if place is None or place >= len(call.params):
        return call
    block = call.params[place]
    if call.method not in _BY_STATE or block not in (*_PRESENT, as_quantity(head.number)):
        return call
    params = (*call.params[:place], {"blockHash": as_data(head.hash)}, *call.params[place + 1 :])
    return evolve(call, params=params)


def _known(call: Call[object], head: Header) -> object:
    """What the agreed head itself answers."""
    if call.method == "eth_blockNumber":
        return head.number
    if call.method == "eth_getBlockByNumber" and call.params[0] in (*_PRESENT, as_quantity(head.number)):
        return head
    return None


def _any_amount(_: object) -> object:
    return True
