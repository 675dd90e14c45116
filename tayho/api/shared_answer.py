"""A question that many may ask at once and that is put once: probes must not stampede what they look at."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

import trio

from nursery.periodic import Hint

T = TypeVar("T")


class SharedAnswer(Generic[T]):
    """One asking at a time, by the task in `run`; its answer goes to all who wait, and to all within `kept_seconds`.

    Who waits is not held longer than the deadline even where the asking, cancelled at the same deadline, is slow to
    give its connection back.
    """

    def __init__(self, ask: Callable[[], Awaitable[T]], *, kept_seconds: float, deadline_seconds: float) -> None:
        self._ask = ask
        self._kept_seconds = kept_seconds
        self._deadline_seconds = deadline_seconds
        self._wanted = Hint()
        self._asked = trio.Event()
        self._answer: T | None = None
        # In Trio's clock; the absence of an answer is kept as long as an answer.
        self._fresh_until = float("-inf")

    async def run(self) -> None:
        """Ask whenever somebody wants to know, until cancelled. What the question raises leaves."""
        while True:
            await self._wanted.wait()
            if self._is_fresh:
                continue
            answer: T | None = None
            with trio.move_on_after(self._deadline_seconds):
                answer = await self._ask()
            self._answer = answer
            self._fresh_until = trio.current_time() + self._kept_seconds
            self._asked.set()
            self._asked = trio.Event()

    async def get(self) -> T | None:
        """The answer, not older than `kept_seconds`; None where none came within the deadline."""
        if self._is_fresh:
            await trio.lowlevel.checkpoint()
            return self._answer
        self._wanted.give()
        with trio.move_on_after(self._deadline_seconds):
            await self._asked.wait()
            return self._answer
        return None

    @property
    def _is_fresh(self) -> bool:
        return trio.current_time() < self._fresh_until
