"""One configured endpoint as the pool and the quorum see it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar

from rpc.errors import RpcError
from rpc.reads import Call

T = TypeVar("T")


class Member(Protocol):
    """An endpoint that can be asked by itself. It bounds each of its answers in time and size."""

    @property
    def shown(self) -> str:
        """Scheme, host and port: its name in evidence, metrics and messages."""
        ...

    async def ask(self, call: Call[T]) -> T:
        """As `rpc.reads.Reads.ask`."""
        ...

    async def ask_many(self, calls: Sequence[Call[T]]) -> list[T | RpcError]:
        """As `rpc.reads.Reads.ask_many`."""
        ...
