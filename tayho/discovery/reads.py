"""What a look reads the chain by: one head for the whole look, agreed when the first question is asked."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

import trio

from rpc.errors import RpcError
from rpc.reads import Call, Reads

T = TypeVar("T")


class LookReads:
    """`rpc.reads.Reads` of one look. A kind that asks nothing costs no vote."""

    def __init__(self, agree: Callable[[], Awaitable[Reads]]) -> None:
        self._agree = agree
        self._agreed: Reads | None = None
        # Questions that a kind asks side by side are about one head all the same.
        self._agreeing = trio.Lock()

    async def ask(self, call: Call[T]) -> T:
        """As the agreed reads answer. Raises NoQuorum besides where no head is agreed."""
        return await (await self._at_head()).ask(call)

    async def ask_many(self, calls: Sequence[Call[T]]) -> list[T | RpcError]:
        """As `ask`, in the order asked, each with its own error in place."""
        return await (await self._at_head()).ask_many(calls)

    async def _at_head(self) -> Reads:
        async with self._agreeing:
            if self._agreed is None:
                self._agreed = await self._agree()
            return self._agreed
