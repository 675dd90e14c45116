"""Contested decisions that wait to be written down, a bounded number a minute: a liar must not fill the disk."""

from __future__ import annotations

from collections import deque

import trio

from rpc.evidence import Evidence

BURST_MAX = 20
REFILL_SECONDS = 60
"""So many at once, and after that one more a minute: with 4,000 characters a voter, tens of megabytes a day."""


class Contests:
    """What was contested, oldest first. What is too much is counted and not kept."""

    def __init__(self) -> None:
        self._waiting: deque[Evidence] = deque()
        self._room = float(BURST_MAX)
        self._seen_at: float | None = None
        self.dropped = 0

    def note(self, evidence: Evidence) -> None:
        """Keep it until it is written down, or count it as dropped. Quick, and raises nothing."""
        now = trio.current_time()
        if self._seen_at is not None:
            self._room = min(self._room + (now - self._seen_at) / REFILL_SECONDS, BURST_MAX)
        self._seen_at = now
        if self._room < 1 or len(self._waiting) >= BURST_MAX:
            self.dropped += 1
            return
        self._room -= 1
        self._waiting.append(evidence)

    @property
    def waiting(self) -> tuple[Evidence, ...]:
        return tuple(self._waiting)

    def written(self, count: int, dropped: int) -> None:
        """So many of the oldest are written down, and so many as dropped."""
        for _ in range(count):
            self._waiting.popleft()
        self.dropped -= dropped
