"""What the demo is asked for, and what it found."""

from __future__ import annotations

from attrs import frozen


@frozen
class DemoPlan:
    """How much, by how many, and whether one of them dies in the middle."""

    jobs: int
    replicas: int
    kill: bool
    deadline_seconds: float = 300


@frozen
class DemoReport:
    """Counted at the end: jobs in PostgreSQL, effects on the chain."""

    jobs: int
    completed: int
    # Jobs with an event of their own in the chain's logs.
    effects: int
    # Events beyond the first of one job.
    duplicates: int
    # Jobs without any event.
    lost: int
    killed: int
    # From the first event's block to the last one's.
    chain_seconds: int
    jobs_per_second: float
    # How each replica that was told to stop ended; all must be 0.
    exit_codes: tuple[int, ...]

    @property
    def is_right(self) -> bool:
        return (
            self.completed == self.jobs == self.effects
            and self.duplicates == 0
            and self.lost == 0
            and not any(self.exit_codes)
        )
