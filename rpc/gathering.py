"""Reads of many callers in few requests: what is asked at the same time is asked together (RPC-9)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, TypeAlias, TypeVar, cast

from nursery.coalesce import Coalescer
from rpc.coalescing import read_alike
from rpc.errors import RpcError
from rpc.method_traits import traits_of
from rpc.reads import Call, Reads

T = TypeVar("T")

_Asked: TypeAlias = "Sequence[Call[Any]]"
_Told: TypeAlias = "Sequence[object]"

CALLERS_MAX = 100
QUEUED_MAX = 2_000
# Requests that are answered while the next callers gather: one that is slow stops the others no more than this.
PARALLEL = 4


class GatheredReads:
    """Reads that gather the light questions of all callers while earlier ones are under way. Implements `Reads`.

    Nobody waits for company: who comes alone is asked alone, and hedged as ever. A question that several ask at once is
    asked once, also one about the present: all of them asked before the request went out. Heavy questions go their own
    way, so that nobody waits for another's logs.

    `run` must run somewhere for light questions to be answered.
    """

    def __init__(self, reads: Reads) -> None:
        self._reads = reads
        self._together: Coalescer[_Asked, _Told] = Coalescer(
            self._ask, name="reads", items_max=CALLERS_MAX, queued_max=QUEUED_MAX, parallel=PARALLEL
        )

    async def run(self) -> None:
        """Serve until cancelled."""
        await self._together.run()

    async def ask(self, call: Call[T]) -> T:
        """As the reads below."""
        if not _is_gathered(call):
            return await self._reads.ask(call)
        (answer,) = await self._together.submit([call])
        if isinstance(answer, Exception):
            raise answer
        return cast("T", answer)

    async def ask_many(self, calls: Sequence[Call[T]]) -> list[T | RpcError]:
        """As the reads below."""
        if not all(_is_gathered(call) for call in calls):
            return await self._reads.ask_many(calls)
        return cast("list[T | RpcError]", list(await self._together.submit(calls)))

    async def _ask(self, asked: Sequence[_Asked]) -> Sequence[_Told]:
        distinct = _Distinct()
        places = [[distinct.place_of(call) for call in calls] for calls in asked]
        answers = await self._told(distinct.calls)
        return [[answers[place] for place in own] for own in places]

    async def _told(self, calls: _Asked) -> _Told:
        if len(calls) > 1:
            return await self._reads.ask_many(calls)
        try:
            return [await self._reads.ask(call) for call in calls]
        except RpcError as error:
            return [error]


class _Distinct:
    """Questions, each of them once."""

    def __init__(self) -> None:
        self.calls: list[Call[Any]] = []
        self._places: dict[tuple[str, str], int] = {}

    def place_of(self, call: Call[Any]) -> int:
        key = (call.method, json.dumps(call.params, sort_keys=True, separators=(",", ":")))
        place = self._places.setdefault(key, len(self.calls))
        if place < len(self.calls) and read_alike(self.calls[place], call):
            return place
        # New, or the same question whose answer is read into something else.
        self.calls.append(call)
        return len(self.calls) - 1


def _is_gathered(call: Call[Any]) -> bool:
    return not call.is_write and traits_of(call.method).work != "heavy"
