"""What intents shows the other contexts.

Generated from tayho/intents/module.py by `make contracts`; a stale copy fails the build.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol
from uuid import UUID

from tayho.intents.errors import (
    DeadlinePassed,
    DeadlineTooFar,
    IntentMalformed,
    IntentNotPermitted,
    IntentRefused,
    LineDrifted,
    LineWaits,
    SignatureMalformed,
    SignatureMalleable,
)
from tayho.intents.types import (
    ACTION_MAX,
    PAYLOAD_BYTES_MAX,
    SIGNATURE_BYTES,
    Accepted,
    BatchContract,
    BatchSettings,
    Carried,
    Child,
    ChildResult,
    Happening,
    Intent,
    IntentDomain,
    IntentStatus,
    LineLook,
    LinePlace,
    NotPermitted,
    Observe,
    Permit,
    Recover,
    SignedIntent,
    Waiting,
)

__all__ = [
    "ACTION_MAX",
    "PAYLOAD_BYTES_MAX",
    "SIGNATURE_BYTES",
    "Accepted",
    "BatchContract",
    "BatchSettings",
    "Carried",
    "Child",
    "ChildResult",
    "DeadlinePassed",
    "DeadlineTooFar",
    "Happening",
    "Intent",
    "IntentDomain",
    "IntentMalformed",
    "IntentNotPermitted",
    "IntentRefused",
    "IntentStatus",
    "Intents",
    "LineDrifted",
    "LineLook",
    "LinePlace",
    "LineWaits",
    "NotPermitted",
    "Observe",
    "Permit",
    "Recover",
    "SignatureMalformed",
    "SignatureMalleable",
    "SignedIntent",
    "Waiting",
]


class Intents(Protocol):
    """The line of one (chain, environment): intents in, each once, and how far each has come. It holds no key."""

    async def register(self) -> None:
        """Make sure that there is a line. Replicas may do it at once."""
        ...

    async def run(self) -> None:
        """Take in what is submitted, until cancelled: nothing is answered before."""
        ...

    async def submit(self, signed: SignedIntent) -> Accepted:
        """Take an intent: the same one again is the same job, also where it could not be taken any more (INT-2).

        Raises IntentRefused (each class has its code), RpcError where the chain cannot be asked, StorageError with
        nothing recorded, CommitUnknown: then submitting again tells. CoalescerClosed: `run` has ended.
        """
        ...

    async def status(self, job_id: UUID) -> IntentStatus | None:
        """How far an intent has come; None where there is none of that id."""
        ...

    async def statuses(self, job_ids: Sequence[UUID]) -> dict[UUID, IntentStatus]:
        """How far each has come, in two statements however many they are; unknown ones are left out."""
        ...
