"""One question raced over several endpoints in one nursery: the first valid answer wins, the rest is cancelled."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar, cast

import trio
from attrs import define, field

from nursery.groups import unwrapped
from rpc.errors import RpcError
from rpc.member import GuardedEndpoint
from rpc.method_traits import is_early_null
from rpc.reads import Call
from rpc.refusals import is_answer, most_telling

T = TypeVar("T")


@define(eq=False)
class Leg(Generic[T]):
    """One endpoint's part in a race."""

    member: GuardedEndpoint
    is_hedge: bool
    started: float
    value: T | None = None
    error: RpcError | None = None
    has_ended: bool = False


@define(eq=False)
class Race(Generic[T]):
    """One question. `run` once.

    A contender that fails is replaced at once. A null that may mean "not yet" is kept, and wins only when nobody is
    left running: another endpoint may have the answer. What only the question can be blamed for ends the race as a
    value does.
    """

    call: Call[T]
    contenders: Sequence[GuardedEndpoint]
    # How long the next leg may take, told how many contenders come after it.
    patience_seconds: Callable[[int], float]
    # None: not hedged. Else the delay, and whether a hedge may go once it has passed.
    hedge_seconds: float | None = None
    may_hedge: Callable[[], bool] = lambda: False
    legs: list[Leg[T]] = field(factory=list["Leg[T]"], init=False)
    winner: Leg[T] | None = field(default=None, init=False)
    _changed: trio.Event = field(factory=trio.Event, init=False)
    _early_null: Leg[T] | None = field(default=None, init=False)
    _errors: list[RpcError] = field(factory=list[RpcError], init=False)

    @property
    def hedge(self) -> Leg[T] | None:
        """The leg that was added while another still ran."""
        return next((leg for leg in self.legs if leg.is_hedge), None)

    @property
    def errors(self) -> Sequence[RpcError]:
        """What the contenders that failed raised, in the order in which they did."""
        return self._errors

    async def run(self) -> T:
        """The answer. Raises the most telling error when every contender failed."""
        if self.hedge_seconds is None or len(self.contenders) == 1:
            await self._in_turn()
        else:
            with unwrapped():
                async with trio.open_nursery() as legs:
                    await self._raced(legs, self.hedge_seconds)
                    legs.cancel_scope.cancel()
        self.winner = self.winner or self._early_null
        if self.winner is None:
            raise most_telling(self._errors)
        if self.winner.error is not None:
            raise self.winner.error
        return cast("T", self.winner.value)

    async def _in_turn(self) -> None:
        """One after the other in the caller's own task: nothing runs beside."""
        while self.winner is None and self._early_null is None and len(self.legs) < len(self.contenders):
            await self._ask(self._next(is_hedge=False))

    async def _raced(self, legs: trio.Nursery, hedge_seconds: float) -> None:
        legs.start_soon(self._ask, self._next(is_hedge=False))
        with trio.move_on_after(hedge_seconds):
            await self._decided(legs)
            return
        if len(self.legs) == 1 and self.may_hedge():
            legs.start_soon(self._ask, self._next(is_hedge=True))
        await self._decided(legs)

    async def _decided(self, legs: trio.Nursery) -> None:
        """Wait for the end of the race, replacing every leg that fails meanwhile."""
        while self.winner is None:
            running = sum(not leg.has_ended for leg in self.legs)
            if running == 0:
                if self._early_null is not None or len(self.legs) == len(self.contenders):
                    return
                legs.start_soon(self._ask, self._next(is_hedge=False))
            elif self._changed.is_set():
                self._changed = trio.Event()
            else:
                await self._changed.wait()

    def _next(self, *, is_hedge: bool) -> Leg[T]:
        leg: Leg[T] = Leg(self.contenders[len(self.legs)], is_hedge, trio.current_time())
        self.legs.append(leg)
        return leg

    async def _ask(self, leg: Leg[T]) -> None:
        left = len(self.contenders) - len(self.legs)
        try:
            leg.value = await leg.member.ask(self.call, self.patience_seconds(left))
        except RpcError as error:
            leg.error = error
        leg.has_ended = True
        self._judge(leg)
        self._changed.set()

    def _judge(self, leg: Leg[T]) -> None:
        if self.winner is not None:
            return
        if leg.error is not None:
            if is_answer(leg.error):
                self.winner = leg
            else:
                self._errors.append(leg.error)
        elif is_early_null(self.call, leg.value):
            self._early_null = self._early_null or leg
        else:
            self.winner = leg
