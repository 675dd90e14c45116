"""One request for all who ask the same question at the same time (RPC-9). Nothing is kept once it is answered."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from types import FunctionType
from typing import Any, TypeVar, cast

import attrs
import trio
from attrs import define, field

from rpc.errors import RpcError
from rpc.method_traits import is_early_null, is_pinned
from rpc.reads import Call

T = TypeVar("T")


@define(eq=False)
class _Flight:
    """A question under way, and those who wait for its answer."""

    call: Call[Any]
    scope: trio.CancelScope = field(factory=trio.CancelScope)
    landed: trio.Event = field(factory=trio.Event)
    waiters: int = 0
    value: object = None
    error: Exception | None = None


class SharedQuestions:
    """Questions that are pinned to a block, shared while they are under way.

    A question runs in `background`, not in the task of whoever asked first: he may be cancelled and the others still
    get their answer. When nobody waits any more it is cancelled.

    Whoever joins is never told a null that may mean "not yet": the question began before he asked, and the block may
    have come since. He asks anew.
    """

    def __init__(self, background: trio.Nursery) -> None:
        self._background = background
        self._flights: dict[tuple[str, str], _Flight] = {}
        self.joined = 0

    @property
    def under_way(self) -> int:
        """Questions that are being asked now."""
        return len(self._flights)

    async def ask(self, call: Call[T], fetch: Callable[[Call[T]], Awaitable[T]]) -> T:
        """The answer that `fetch` gets, which may be that of an earlier caller. Raises what `fetch` raises."""
        if not is_pinned(call):
            return await fetch(call)
        key = (call.method, json.dumps(call.params, sort_keys=True, separators=(",", ":")))
        flight = self._flights.get(key)
        if flight is None:
            return await self._wait(key, self._begun(key, call, fetch))
        if not read_alike(flight.call, call):
            return await fetch(call)
        self.joined += 1
        value = await self._wait(key, flight)
        return await fetch(call) if is_early_null(call, value) else value

    def _begun(self, key: tuple[str, str], call: Call[T], fetch: Callable[[Call[T]], Awaitable[T]]) -> _Flight:
        flight = self._flights[key] = _Flight(call)

        async def fly() -> None:
            with flight.scope:
                try:
                    flight.value = await fetch(call)
                except Exception as error:  # noqa: BLE001 - raised again, to each who waits
                    flight.error = error
            self._forget(key, flight)
            flight.landed.set()

        self._background.start_soon(fly, name=f"shared {call.method}")
        return flight

    async def _wait(self, key: tuple[str, str], flight: _Flight) -> Any:
        flight.waiters += 1
        try:
            await flight.landed.wait()
        finally:
            flight.waiters -= 1
            if flight.waiters == 0 and not flight.landed.is_set():
                # Out of the table first: who asks in this very moment must not join what is being cancelled.
                self._forget(key, flight)
                flight.scope.cancel()
        if flight.error is not None:
            raise _for_one_raiser(flight.error) from flight.error
        return flight.value

    def _forget(self, key: tuple[str, str], flight: _Flight) -> None:
        if self._flights.get(key) is flight:
            del self._flights[key]


def read_alike(one: Call[Any], other: Call[Any]) -> bool:
    """Whether two calls read the same answer into the same value: one function, closed over equal values."""
    first, second = one.parse, other.parse
    if first is second:
        return True
    if not (isinstance(first, FunctionType) and isinstance(second, FunctionType)):
        return False
    return first.__code__ is second.__code__ and _closure_of(first) == _closure_of(second)


def _closure_of(function: FunctionType) -> tuple[object, ...]:
    return tuple(cell.cell_contents for cell in function.__closure__ or ())


def _for_one_raiser(error: Exception) -> Exception:
    """A copy of an error for one of several who raise it: each adds its own traceback."""
    return cast("Exception", attrs.evolve(cast("Any", error))) if isinstance(error, RpcError) else error
