"""Cancels a piece of work at each of its awaits in turn: what a test of anything that holds something needs."""

from collections.abc import AsyncIterator, Awaitable, Callable

import trio
from trio.abc import Instrument
from trio.lowlevel import Task

# A piece of work with more awaits than this is too long to be cancelled at each.
AWAITS_MAX = 500


def cancelled_at_each_await(work: Callable[[], Awaitable[object]]) -> AsyncIterator[int]:
    """Run `work` again and again, cancelled at its first await, then at its second, up to the run that ends unharmed.

    Gives after each run, the last included, the number of the await, for the test to look at what is left behind.
    """
    return _Runs(work)


class _Runs:
    # No async generator: one that is left early would be finalised outside the test's task.
    def __init__(self, work: Callable[[], Awaitable[object]]) -> None:
        self._work = work
        self._number = 0
        self._ended_unharmed = False

    def __aiter__(self) -> "_Runs":
        return self

    async def __anext__(self) -> int:
        if self._ended_unharmed:
            raise StopAsyncIteration
        self._number += 1
        if self._number > AWAITS_MAX:
            raise AssertionError(f"The work still had an await to cancel after {AWAITS_MAX}.")
        self._ended_unharmed = not await _is_cancelled_at(self._number, self._work)
        return self._number


async def _is_cancelled_at(number: int, work: Callable[[], Awaitable[object]]) -> bool:
    with trio.CancelScope() as scope:
        instrument = _CancelAtAwait(trio.lowlevel.current_task(), scope, number)
        trio.lowlevel.add_instrument(instrument)
        try:
            await work()
        finally:
            trio.lowlevel.remove_instrument(instrument)
    return scope.cancel_called


class _CancelAtAwait(Instrument):
    """Cancels `scope` when `task` blocks for the `number`th time."""

    def __init__(self, task: Task, scope: trio.CancelScope, number: int) -> None:
        self._task = task
        self._scope = scope
        self._left = number

    def after_task_step(self, task: Task) -> None:
        if task is self._task:
            self._left -= 1
            if self._left == 0:
                self._scope.cancel()
