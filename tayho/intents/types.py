"""What intents shows to the hosts: intents, what becomes of them, and the batches that carry them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from enum import Enum
from typing import Protocol, TypeAlias
from uuid import UUID

from attrs import field, frozen

from rpc.methods import CallRequest
from rpc.reads import Reads
from rpc.values import Receipt, shown_hex
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
class BatchSettings:
    """How a relayer makes batches of the line. Units are in the names."""

    window_milliseconds: int
    items_max: int
    gas_buffer_basis_points: int
    block_share_basis_points: int
    gas_max: int


@frozen
class Carried:
    """An intent as a batch carries it, and the gas that it may use there."""

    signed: SignedIntent
    gas_stipend: int


@frozen
class ChildResult:
    """What the executor logged of one child."""

    batch_id: bytes = field(repr=shown_hex)
    child_index: int
    digest: bytes = field(repr=shown_hex)
    succeeded: bool
    return_data_digest: bytes = field(repr=shown_hex)


class BatchContract(Protocol):
    """The contract that executes batches of one protocol: what it is asked, what it costs and what it logs."""

    @property
    def address(self) -> Address:
        """Where it is."""
        ...

    def alone(self, signed: SignedIntent, gas_limit: int) -> CallRequest:
        """The call that it makes for one intent, to be simulated by itself with so much gas at most."""
        ...

    def call_data(self, batch_id: bytes, children: Sequence[Carried]) -> bytes:
        """The call that executes these children in their order."""
        ...

    def execution_gas(self, call_data: bytes, children: Sequence[Carried]) -> int:
        """The most gas that this call can need with every stipend used up, without what a transaction costs before."""
        ...

    def stipend_within(self, execution_gas: int) -> int:
        """The greatest stipend that a child may have where so much is left for it; negative where there is none."""
        ...

    def results_in(self, receipt: Receipt) -> list[ChildResult]:
        """What it logged of children, in the order of the logs. Raises ResultMissing for a log that cannot be read."""
        ...

    def refusal(self, data: bytes) -> str | None:
        """The protocol's own name for what it reverted with."""
        ...

    async def problem(self, reads: Reads) -> str | None:
        """Why nothing may be sent to it: no contract is there, or one of another protocol. Raises RpcError."""
        ...


@frozen
class LineLook:
    """How many intents wait, and for how long the first of them does."""

    waiting: int
    oldest_seconds: float


@frozen
class LinePlace:
    """An intent for an operator's eyes: where it stands, and in what state its job is not told here."""

    job_id: UUID
    digest: bytes = field(repr=shown_hex)
    account: Address
    action: int
    deadline: int
    accepted_at: datetime
    waits: bool
    batch_job_id: UUID | None
    child_index: int | None
    gas_stipend: int | None
    succeeded: bool | None


class Happening(Enum):
    """What a relayer counts. The comment says what the count's label is."""

    BATCHED = "batched"  # empty; batches
    CHILDREN = "children"  # empty; intents put into them
    QUARANTINED = "quarantined"  # why, in a word


# Called with what happened, its label, and how often.
Observe: TypeAlias = Callable[[Happening, str, int], None]
