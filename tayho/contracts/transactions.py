"""What transactions shows the other contexts.

Generated from tayho/transactions/module.py by `make contracts`; a stale copy fails the build.
"""

from __future__ import annotations

from typing import Protocol

from tayho.kernel.jobs import Attempt, Job, Outcome
from tayho.kinds import OnChainKind
from tayho.transactions.errors import (
    ActRefused,
    CheckMissing,
    EstimateAbsurd,
    FillerNeeded,
    GasBeyondCap,
    LaneNotDraining,
    LaneTaken,
    LaneUnknown,
    LineageDrifted,
    LineageEnded,
    LineageUnknown,
    MarketAboveCeiling,
    MarketAbsurd,
    NoLaneOpen,
    NoLongerUnsigned,
    NonceUnsettled,
    NothingHalted,
    NothingSigned,
    PoolHalted,
    PoolUnknown,
    RotationRefused,
    SignerRetired,
    SignerTaken,
    StillOpen,
    TransactionError,
    UnderBlock,
    WorldUnseen,
    WrongRemedy,
)
from tayho.transactions.types import (
    ActDone,
    Allocation,
    Answer,
    Answered,
    AnswerKind,
    AnswerReason,
    EvidenceRecord,
    Fee,
    FeeCapped,
    Final,
    Finding,
    FindingKind,
    Foreign,
    Halt,
    HaltKind,
    Happening,
    Hold,
    LaneFacts,
    LaneNeeds,
    LaneStatus,
    Lineage,
    LineageRecord,
    Mark,
    Market,
    MemberRecord,
    Observe,
    ObserveSeconds,
    OpenMember,
    Ours,
    Outgoing,
    Persistence,
    Resolution,
    Said,
    SignedMember,
    Simulated,
    Stage,
    TransactionSettings,
    Unidentified,
    UsedUp,
    WouldRevert,
)

__all__ = [
    "ActDone",
    "ActRefused",
    "Allocation",
    "Answer",
    "AnswerKind",
    "AnswerReason",
    "Answered",
    "CheckMissing",
    "EstimateAbsurd",
    "EvidenceRecord",
    "Fee",
    "FeeCapped",
    "FillerNeeded",
    "Final",
    "Finding",
    "FindingKind",
    "Foreign",
    "GasBeyondCap",
    "Halt",
    "HaltKind",
    "Happening",
    "Hold",
    "LaneFacts",
    "LaneNeeds",
    "LaneNotDraining",
    "LaneStatus",
    "LaneTaken",
    "LaneUnknown",
    "Lineage",
    "LineageDrifted",
    "LineageEnded",
    "LineageRecord",
    "LineageUnknown",
    "Mark",
    "Market",
    "MarketAboveCeiling",
    "MarketAbsurd",
    "MemberRecord",
    "NoLaneOpen",
    "NoLongerUnsigned",
    "NonceUnsettled",
    "NothingHalted",
    "NothingSigned",
    "Observe",
    "ObserveSeconds",
    "OpenMember",
    "Ours",
    "Outgoing",
    "Persistence",
    "PoolHalted",
    "PoolUnknown",
    "Resolution",
    "RotationRefused",
    "Said",
    "SignedMember",
    "SignerRetired",
    "SignerTaken",
    "Simulated",
    "Stage",
    "StillOpen",
    "TransactionError",
    "TransactionSettings",
    "Transactions",
    "UnderBlock",
    "Unidentified",
    "UsedUp",
    "WorldUnseen",
    "WouldRevert",
    "WrongRemedy",
]


class Transactions(Protocol):
    """One pool's lanes and journal: jobs in, at most one effect each out."""

    async def register(self) -> None:
        """Make sure that every signer has its lane, and that the chain is the one that the journal is about.

        A wrong world raises nothing: it halts the pool, which stays so until an operator's command (`halts`). Raises
        LaneTaken, RpcError, StorageError.
        """
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

    async def halts(self) -> list[Halt]:
        """The pool's open halts: while there is one, nothing is signed, sent or finalised. Raises StorageError."""
        ...

    async def open_lineages(self) -> int:
        """How many lineages of the pool are not final."""
        ...
