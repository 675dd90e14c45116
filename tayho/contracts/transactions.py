"""What transactions shows the other contexts.

Generated from tayho/transactions/module.py by `make contracts`; a stale copy fails the build.
"""

from __future__ import annotations

from typing import Protocol

from tayho.kernel.jobs import Attempt, Job, Outcome
from tayho.kinds import OnChainKind
from tayho.transactions.errors import (
    BroadcastDoubtful,
    ChainUnsupported,
    LaneTaken,
    LineageDrifted,
    MarketAboveCeiling,
    NoLaneOpen,
    NoLongerUnsigned,
    TransactionError,
)
from tayho.transactions.types import (
    Allocation,
    Answer,
    AnswerKind,
    EvidenceRecord,
    Fee,
    LaneStatus,
    Lineage,
    LineageRecord,
    Mark,
    MemberRecord,
    Persistence,
    SignedMember,
    Simulated,
    TransactionSettings,
    WouldRevert,
)

__all__ = [
    "Allocation",
    "Answer",
    "AnswerKind",
    "BroadcastDoubtful",
    "ChainUnsupported",
    "EvidenceRecord",
    "Fee",
    "LaneStatus",
    "LaneTaken",
    "Lineage",
    "LineageDrifted",
    "LineageRecord",
    "Mark",
    "MarketAboveCeiling",
    "MemberRecord",
    "NoLaneOpen",
    "NoLongerUnsigned",
    "Persistence",
    "SignedMember",
    "Simulated",
    "TransactionError",
    "TransactionSettings",
    "Transactions",
    "WouldRevert",
]


class Transactions(Protocol):
    """One pool's lanes and journal: jobs in, at most one effect each out."""

    async def register(self) -> None:
        """Make sure that every signer has its lane. Raises LaneTaken, RpcError, StorageError."""
        ...

    async def run(self) -> None:
        """Serve executions and reconcile, until cancelled."""
        ...

    async def execute(self, kind: OnChainKind, job: Job, attempt: Attempt) -> Outcome:
        """Carry one attempt as far as a node; how it ends is the attempt's outcome or an error that a retry resumes."""
        ...

    async def lanes(self) -> list[LaneStatus]:
        """The pool's lanes as they are now."""
        ...

    async def open_lineages(self) -> int:
        """How many lineages of the pool are not final."""
        ...
