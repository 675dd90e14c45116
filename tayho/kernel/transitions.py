"""The one table of states and arrows. The database refuses whatever is not listed here (DLV-7, ARC-9).

`sql/migrations` writes the same rows into `tayho.transitions`, which a trigger reads on every change of state; a test
holds the two equal. A new arrow is a new migration and a line here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from attrs import frozen

NEW = "new"  # what a row was before its insert


@frozen
class Arrow:
    """One allowed change of state. With an operation, only that named operation may take it."""

    source: str
    target: str
    operation: str | None = None


@frozen
class TransitionTable:
    """The life of one kind of row."""

    name: str
    arrows: frozenset[Arrow]
    # Rows in these are immutable but for a named operation.
    terminal: frozenset[str]

    @property
    def states(self) -> frozenset[str]:
        return frozenset(arrow.target for arrow in self.arrows)

    def allows(self, source: str, target: str, operation: str | None = None) -> bool:
        return Arrow(source, target, operation) in self.arrows or Arrow(source, target) in self.arrows


def _table(
    name: str, lines: Mapping[str, Iterable[str]], *, terminal: Iterable[str] = (), named: Iterable[Arrow] = ()
) -> TransitionTable:
    plain = {Arrow(source, target) for source, targets in lines.items() for target in targets}
    return TransitionTable(name, frozenset(plain | set(named)), frozenset(terminal))


JOB = _table(
    "coordination.jobs",
    {
        NEW: ("queued", "pending_batch"),
        "pending_batch": ("batched", "quarantined"),
        "batched": ("completed", "dead"),
        "queued": ("processing", "dead"),
        "processing": ("confirming", "completed", "not_actionable", "retry", "quarantined", "dead"),
        "retry": ("processing", "completed", "dead"),
        "confirming": ("completed", "retry", "dead"),
    },
    terminal=("completed", "not_actionable", "quarantined", "dead"),
    named=(
        Arrow("dead", "queued", "replay"),
        Arrow("completed", "retry", "revive"),
        Arrow("dead", "retry", "revive"),
        # Children of a parent that took no effect, that is replayed, or whose block the chain took back (INT-7, TX-6).
        Arrow("dead", "pending_batch", "release"),
        Arrow("completed", "batched", "restore"),
        Arrow("dead", "batched", "restore"),
        # Replayed, and given its earlier transaction back before it took another nonce.
        Arrow("queued", "retry", "revive"),
    ),
)
ATTEMPT_ENDS = (
    "completed", "not_actionable", "quarantined", "confirming", "failed", "returned", "cancelled", "lost",
)  # fmt: skip
ATTEMPT = _table(
    "coordination.attempts",
    {
        NEW: ("running",),
        "running": ATTEMPT_ENDS,
    },
    terminal=ATTEMPT_ENDS,
)
LANE = _table(
    "transactions.lanes",
    {
        NEW: ("open",),
        "open": ("draining", "blocked", "underfunded"),
        "draining": ("open", "retired"),
        "blocked": ("open", "draining", "underfunded"),
        "underfunded": ("open", "draining", "blocked"),
    },
    terminal=("retired",),
)
LINEAGE = _table(
    "transactions.lineages",
    {
        NEW: ("allocated",),
        "allocated": ("signed", "abandoned", "superseded"),
        "signed": ("broadcast", "mined", "reverted", "cancelled", "superseded"),
        "broadcast": ("mined", "reverted", "cancelled", "superseded"),
    },
    terminal=("mined", "reverted", "cancelled", "superseded", "abandoned"),
    named=(
        Arrow("broadcast", "signed", "replace"),
        Arrow("mined", "signed", "revive"),
        Arrow("reverted", "signed", "revive"),
        Arrow("cancelled", "signed", "revive"),
        Arrow("superseded", "signed", "revive"),
        Arrow("superseded", "allocated", "revive"),
    ),
)
MEMBER = _table(
    "transactions.members",
    {
        NEW: ("signed",),
        "signed": ("broadcast", "ambiguous", "replaced", "mined", "reverted"),
        # Sent, and no node has said yes or no: the same bytes are sent again until a receipt ends the doubt.
        "ambiguous": ("broadcast", "replaced", "mined", "reverted"),
        "broadcast": ("replaced", "mined", "reverted"),
        "replaced": ("mined", "reverted"),
    },
    terminal=("mined", "reverted"),
    named=(
        Arrow("mined", "signed", "revive"),
        Arrow("reverted", "signed", "revive"),
        Arrow("mined", "replaced", "revive"),
        Arrow("reverted", "replaced", "revive"),
        Arrow("replaced", "signed", "revive"),
        # It was out while a cheaper one was mined: nobody knows any more who still has it.
        Arrow("broadcast", "signed", "revive"),
        Arrow("ambiguous", "signed", "revive"),
    ),
)

CHILD = _table(
    "intents.children",
    {
        NEW: ("live",),
        "live": ("settled", "released"),
    },
    terminal=("settled", "released"),
    named=(Arrow("settled", "live", "restore"),),
)

TABLES: Mapping[str, TransitionTable] = MappingProxyType(
    {table.name: table for table in (JOB, ATTEMPT, LANE, LINEAGE, MEMBER, CHILD)}
)
