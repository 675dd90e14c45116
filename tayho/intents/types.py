"""What intents shows to the hosts: intents, what becomes of them, and the batches that carry them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import TypeAlias
from uuid import UUID

from attrs import field, frozen

from tayho.kernel.address import Address
from tayho.kernel.json_document import Json
from tayho.kernel.transitions import JOB

PAYLOAD_BYTES_MAX = 4_096
ACTION_MAX = 63
SIGNATURE_BYTES = 65


@frozen
class IntentDomain:
    """The protocol that an intent is for: its chain and its contract."""

    chain_id: int
    protocol: Address


@frozen
class Intent:
    """One wish of an account. The contract refuses it after `deadline`, in seconds since 1970."""

    account: Address
    action: int
    market: bytes
    payload: bytes
    salt: int
    deadline: int


@frozen
class SignedIntent:
    """An intent with the session key's signature: r, s and v, 65 bytes."""

    intent: Intent
    signature: bytes = field(repr=False)


@frozen
class Accepted:
    """The intent's job, and whether this submission made it."""

    job_id: UUID
    digest: bytes
    created: bool
    state: str


@frozen
class Waiting:
    """An intent in the line, or in a batch."""

    job_id: UUID
    digest: bytes
    signed: SignedIntent
    accepted_at: datetime


@frozen
class Child:
    """An intent's place in a batch, and the gas that it may use there."""

    child_index: int
    gas_stipend: int
    state: str
    waiting: Waiting


@frozen
class IntentStatus:
    """How far an intent has come, for whoever signed it."""

    job_id: UUID
    digest: bytes
    account: Address
    action: int
    deadline: int
    accepted_at: datetime
    # Its job's, and since when.
    state: str
    changed_at: datetime
    batch_job_id: UUID | None
    child_index: int | None
    succeeded: bool | None
    # What is kept of its success, and of its last failure.
    result: Json
    last_error: Json

    @property
    def is_final(self) -> bool:
        """Whether nothing is left to do. A reorganisation may still take an end back (TX-6)."""
        return self.state in JOB.terminal


@frozen
class NotPermitted:
    """The protocol would not execute the intent now; `reason` is the contract's own name for it."""

    reason: str


# Asks the chain whether it would execute the intent now: None where it would. Raises RpcError.
Permit: TypeAlias = Callable[[SignedIntent], Awaitable[NotPermitted | None]]
# Who signed a digest. Raises ValueError where the signature is none.
Recover: TypeAlias = Callable[[bytes, int, int, int], bytes]


@frozen
class Claimed:
    """What a relayer may take from the front of the line: job ids in their order, each with its stipend."""

    job_ids: Sequence[UUID]
    gas_stipends: Sequence[int]
