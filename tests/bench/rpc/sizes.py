"""How much of everything one run measures."""

from __future__ import annotations

from attrs import frozen


@frozen
class Sizes:
    """The amounts of one run."""

    # Of each scenario, by so many callers at once, none of whom waits longer than `seconds_max` in all.
    reads: int = 3000
    warming: int = 500
    in_flight: int = 4
    seconds_max: float = 30
    # Of each throughput round, and how many rounds of each side, in turn.
    questions: int = 4000
    rounds: int = 5
    receipts: int = 1000

    @classmethod
    def quick(cls) -> Sizes:
        """The sizes of a run that only shows that everything works."""
        return cls(reads=60, warming=20, seconds_max=8, questions=100, rounds=1, receipts=100)
