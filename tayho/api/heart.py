"""Liveness: whether the tasks of the process still get their turn."""

from __future__ import annotations

from collections.abc import Callable

import trio

BEAT_SECONDS = 1.0
# Far above any step between two checkpoints; a process that is only slow must not be killed for it.
STUCK_SECONDS = 30.0


class Heart:
    """Beats while its task runs. Run `beat` in the nursery whose life it vouches for, and nowhere else.

    A loop that is blocked altogether cannot answer a probe at all, and is told by that. The heart tells the other case:
    the server answers, and the nursery of the work has ended or hangs in its clean-up.
    """

    def __init__(self, observe_late: Callable[[float], None] = lambda _seconds: None) -> None:
        """`observe_late` is told at each beat by how many seconds it was late."""
        self._beaten_at = trio.current_time()
        self._observe_late = observe_late

    async def beat(self) -> None:
        """Beat until cancelled."""
        while True:
            self._beaten_at = trio.current_time()
            await trio.sleep(BEAT_SECONDS)
            self._observe_late(self.silent_seconds - BEAT_SECONDS)

    @property
    def silent_seconds(self) -> float:
        """Seconds since the last beat, or since the heart was made."""
        return trio.current_time() - self._beaten_at

    @property
    def is_stuck(self) -> bool:
        return self.silent_seconds > STUCK_SECONDS
