"""What the demo is asked for, and what it found."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import frozen


@frozen
class DemoPlan:
    """How many intents, by how many processes of each role, and whether a relayer dies in the middle of a batch."""

    intents: int
    replicas: int
    kill: bool
    deadline_seconds: float = 300

    @property
    def relayers(self) -> int:
        """Of whom one must survive."""
        return max(self.replicas, 2) if self.kill else self.replicas


@frozen
class Wishes:
    """What the intents of a plan ask for. Together they are all of them."""

    # Orders that wait for another day, and orders that a keeper shall execute at once.
    orders: int
    orders_due: int
    # Withdrawals that a keeper shall pay out.
    claims: int
    # Withdrawals of more than there is: they are taken, cannot be carried, and must hold nobody up.
    hopeless: int

    @property
    def executed(self) -> int:
        """Intents that the chain must show."""
        return self.orders + self.orders_due + self.claims


@frozen
class Figures:
    """Counted at the end: intents by the engine's own answers, effects in the chain's logs."""

    accepted: int
    completed: int
    quarantined: int
    # Batches that executed an intent, and how many in each.
    batches: int
    children_per_batch_mean: float
    children_per_batch_max: int
    # From the moment that the engine recorded an intent to the one that its end was recorded.
    accept_to_final_ms_p50: int
    accept_to_final_ms_p99: int
    # On the chain: orders and claims made; executions beyond the first of one intent, or of nobody's; accepted intents
    # that were neither executed nor quarantined.
    orders: int
    claims: int
    duplicates: int
    lost: int
    # What each role did, in the chain's own logs.
    roles: Mapping[str, int]
    # Jobs of any kind that ended dead.
    dead: int


@frozen
class DemoReport:
    """The figures, and what became of the processes."""

    wishes: Wishes
    # The least that each role had to do.
    wanted: Mapping[str, int]
    figures: Figures
    killed: int
    seconds: float
    # How each replica that was told to stop ended; all must be 0.
    exit_codes: tuple[int, ...]

    @property
    def is_right(self) -> bool:
        """Whether every intent took effect once, or none of a hopeless one, and every role did its work."""
        figures, wishes = self.figures, self.wishes
        return (
            figures.accepted == wishes.executed + wishes.hopeless
            and figures.completed == figures.orders + figures.claims == wishes.executed
            and (figures.claims, figures.quarantined) == (wishes.claims, wishes.hopeless)
            and figures.duplicates == figures.lost == figures.dead == 0
            and all(figures.roles.get(role, 0) >= count for role, count in self.wanted.items())
            and not any(self.exit_codes)
        )
