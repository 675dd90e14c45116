"""How much of everything one run measures."""

from __future__ import annotations

from attrs import frozen

# Shares of `jobs` for sides that are many times slower or faster than tayho: each should run for seconds, not minutes.
SLOW = 0.25
FAST = 5


@frozen
class Sizes:
    """The amounts of one run."""

    # Pre-seeded and worked off in each throughput part.
    jobs: int
    # Enqueued one by one by concurrent callers.
    single_enqueues: int
    # The load under which the time from enqueue to start is taken: far below what one process can do.
    paced_per_second: int
    paced_seconds: float
    # Jobs before the paced ones that are not counted: connections open and statements are prepared.
    warming: int

    @classmethod
    def of(cls, jobs: int) -> Sizes:
        """The sizes of a run that means something."""
        return cls(jobs, single_enqueues=max(jobs // 4, 1), paced_per_second=100, paced_seconds=10, warming=100)

    @classmethod
    def quick(cls, jobs: int) -> Sizes:
        """The sizes of a run that only shows that everything works."""
        return cls(jobs, single_enqueues=max(jobs // 4, 1), paced_per_second=50, paced_seconds=1, warming=10)
