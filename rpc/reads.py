"""What can be asked of a chain, whoever answers: one endpoint, a pool, or a quorum."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, Protocol, TypeVar

from attrs import field, frozen

from rpc.errors import RpcError

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


@frozen
class Call(Generic[T_co]):
    """One JSON-RPC question and how its answer is read. Build it with the functions of `rpc.methods`.

    `parse` raises `rpc.quantities.Unreadable`, and nothing else, for an answer it does not accept. Parameters are not
    shown: those of a write are a signed transaction.
    """

    method: str
    params: tuple[object, ...] = field(repr=False)
    parse: Callable[[object], T_co] = field(repr=False, eq=False)
    is_write: bool = False


class Reads(Protocol):
    """Typed questions to a chain."""

    async def ask(self, call: Call[T]) -> T:
        """The answer. Raises RpcRefused or Reverted where the node refuses, EndpointFault where it gives no answer."""
        ...

    async def ask_many(self, calls: Sequence[Call[T]]) -> list[T | RpcError]:
        """The answers in the order asked, each with its own error in place. Raises ValueError for a write."""
        ...


class Writes(Protocol):
    """The one way of writes to a chain (RPC-1). Nothing is asked twice, but for what a batch's size was refused for."""

    async def ask(self, call: Call[T]) -> T:
        """The answer. Raises RpcRefused where the node refuses, EndpointFault where what it did is unknown."""
        ...

    async def ask_in_turn(self, calls: Sequence[Call[T]]) -> list[T | RpcError]:
        """The answers in the order asked, each with its own error in place; an earlier call is never asked later."""
        ...
