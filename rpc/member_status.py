"""How the members of a pool stand, for people, metrics and readiness (RPC-10)."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import frozen

from rpc.circuit import State
from rpc.method_traits import MethodClass


@frozen
class MethodStatus:
    """One method at one endpoint: score in (0, 1], and a running mean of how long its answers take."""

    score: float
    latency_seconds: float | None


@frozen
class MemberStatus:
    """One endpoint now. Counts are since the pool was opened; batches count each of their questions.

    `circuits`: by class of methods. `circuit_causes`: what opened those that are not closed. `hedges_fired`: how often
    another endpoint was asked beside this one; `hedges_won`: how often this one, asked beside another, had the answer.
    """

    endpoint: str
    score: float
    methods: Mapping[str, MethodStatus]
    circuits: Mapping[MethodClass, State]
    circuit_causes: Mapping[MethodClass, str]
    head: int | None
    lag_blocks: int
    requests: int
    faults: int
    hedges_fired: int
    hedges_won: int
    dissents: int

    @property
    def circuits_open(self) -> Mapping[MethodClass, State]:
        """Those that keep questions away, or will until their probe has answered."""
        return {work: state for work, state in self.circuits.items() if state != "closed"}

    @property
    def is_live(self) -> bool:
        """Whether every class of methods is asked of it."""
        return not self.circuits_open


@frozen
class HedgeSeen:
    """A race that had a hedge, once it has ended.

    `first`: the endpoint that was too slow; `second`: the one asked beside it. `won`: whether the second had the
    answer.
    """

    method: str
    first: str
    second: str
    won: bool
