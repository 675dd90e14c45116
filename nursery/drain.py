"""A two-phase stop: the request ends the intake at once, the deadline ends what is still running."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import trio

from nursery.groups import unwrapped


class Bounded:
    """The outcome of `Drain.bounded`."""

    __slots__ = ("cut_off",)

    def __init__(self) -> None:
        # Invariant: True only if the body was in fact cancelled by the drain deadline.
        self.cut_off = False


class Drain:
    """One stop of one process, requested once and shared by all that must end in order.

    A loop that takes work in asks `requested` before each taking, or waits in `wait_requested`. What runs work to
    its end does so inside `bounded`:

        async with drain.bounded() as bounded:
            async with trio.open_nursery() as handlers:
                while (job := await next_job_or_drain(drain)) is not None:
                    handlers.start_soon(handle, job)
        if bounded.cut_off:
            ...  # some handlers were cancelled; their jobs return to the queue
    """

    def __init__(self, *, seconds: float) -> None:
        """`seconds`: how long running work may go on after the request."""
        self.seconds = seconds
        self._reason: str | None = None
        self._requested = trio.Event()
        # Invariant: in Trio's clock; infinite until the request, then fixed: a second request never moves it.
        self._deadline = float("inf")

    @property
    def requested(self) -> bool:
        """True from the request on, for ever."""
        return self._reason is not None

    @property
    def reason(self) -> str | None:
        """Why the drain was requested, or None while it was not."""
        return self._reason

    @property
    def seconds_left(self) -> float:
        """Seconds until running work is cut off: infinite before the request, never negative."""
        return max(0.0, self._deadline - trio.current_time())

    def request(self, reason: str) -> None:
        """Begin the drain. The first reason and the first deadline stay: a second call changes nothing."""
        if self.requested:
            return
        self._reason = reason
        self._deadline = trio.current_time() + self.seconds
        self._requested.set()

    async def wait_requested(self) -> None:
        """Return once the drain was requested; at once if it was already."""
        await self._requested.wait()

    @asynccontextmanager
    async def bounded(self) -> AsyncGenerator[Bounded]:
        """Run the body to its end, or until `seconds` after the request, when it is cancelled.

        Afterwards `cut_off` of the yielded value tells whether it was. An error of the body leaves as it was raised.
        """
        outcome = Bounded()
        with unwrapped(), trio.CancelScope() as body:
            async with trio.open_nursery() as watch:
                watch.start_soon(self._impose_deadline, body)
                yield outcome
                watch.cancel_scope.cancel()
        outcome.cut_off = body.cancelled_caught

    async def _impose_deadline(self, body: trio.CancelScope) -> None:
        await self._requested.wait()
        body.deadline = self._deadline
