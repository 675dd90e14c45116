"""What is known of a lineage, and what it comes to: the question and the answer of `tx inspect` and `tx explain`."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from enum import Enum
from uuid import UUID

from attrs import frozen

from tayho.kernel.address import Address
from tayho.kernel.json_document import Json
from tayho.transactions.types import Hold, MemberRecord


@frozen
class BroadcastRecord:
    """One send, and what the endpoint said."""

    tx_hash: bytes
    endpoint: str
    answer: str
    reason: str | None
    detail: str | None
    sent_by: str | None
    answered_at: datetime


@frozen
class ReceiptRecord:
    """One observation of a receipt that was final against its head; `orphaned_at` where a reorganisation took it."""

    tx_hash: bytes
    block_number: int
    block_hash: bytes
    succeeded: bool
    gas_used: int
    effective_gas_price_wei: int
    head_block_number: int
    observed_at: datetime
    orphaned_at: datetime | None


@frozen
class EventRecord:
    """Something that callers were told of the lineage."""

    kind: str
    tx_hash: bytes | None
    detail: Json
    occurred_at: datetime


@frozen
class FindingRecord:
    """Something that was found out about the lane while the lineage was open: the evidence beside its own rows."""

    kind: str
    detail: Json
    found_by: str
    found_at: datetime


@frozen
class LineageWhole:
    """Everything that is known of one lineage, but for the signed bytes."""

    lineage_id: UUID
    purpose: str
    job_id: UUID | None
    chain_id: int
    environment: str
    role: str
    signer: Address
    world: int
    nonce: int
    call_hash: bytes
    to_address: Address
    value_wei: int
    call_data_bytes: int
    state: str
    state_reason: str | None
    hold: Hold | None
    hold_reason: str | None
    held_at: datetime | None
    bump_requested_at: datetime | None
    cancel_requested_at: datetime | None
    included_block_number: int | None
    check_at: datetime
    allocated_at: datetime
    ended_at: datetime | None
    # By number; the last is the active one.
    members: tuple[MemberRecord, ...]
    broadcasts: tuple[BroadcastRecord, ...]
    receipts: tuple[ReceiptRecord, ...]
    events: tuple[EventRecord, ...]
    findings: tuple[FindingRecord, ...]


@frozen
class LaneFacts:
    """The lineage's lane, and the lowest nonce of it that has not been seen in a block."""

    state: str
    state_reason: str | None
    next_nonce: int
    latest_nonce: int | None
    pending_nonce: int | None
    balance_wei: int | None
    is_delegated: bool
    observed_at: datetime | None
    lowest_open_nonce: int | None
    lowest_open_lineage_id: UUID | None


@frozen
class HaltRecord:
    """Why nothing is signed, sent or finalised for the pool."""

    kind: str
    evidence: Json
    raised_by: str
    raised_at: datetime


@frozen
class EngineRules:
    """What the asking process is configured with; the engine's own processes are taken to have the same."""

    confirmations: int
    reorg_lookback_blocks: int
    stuck_seconds: int
    replacements_max: int
    reconcile_seconds: int


@frozen
class MemberSeen:
    """One transaction at one node: unknown to it, pending, or in a block."""

    tx_hash: bytes
    is_known: bool
    block_number: int | None
    block_hash: bytes | None
    succeeded: bool | None
    # What it could not say.
    problem: str | None = None


@frozen
class NodeSight:
    """What one endpoint says now. `problem` where it gave no answer at all."""

    endpoint: str
    head_block_number: int | None = None
    base_fee_per_gas_wei: int | None = None
    latest_nonce: int | None = None
    pending_nonce: int | None = None
    members: tuple[MemberSeen, ...] = ()
    problem: str | None = None


@frozen
class LineageFacts:
    """A lineage at one moment of PostgreSQL's clock, and what the nodes say at about the same."""

    whole: LineageWhole
    lane: LaneFacts
    halts: tuple[HaltRecord, ...]
    rules: EngineRules
    now: datetime
    nodes: tuple[NodeSight, ...] = ()


class TxCause(Enum):
    """Why a transaction is where it is. Scripts may rely on these words."""

    FINAL = "final"
    HALTED = "halted"
    WAITING_FOR_CONFIRMATIONS = "waiting_for_confirmations"
    RESULT_MISSING = "result_missing"
    NONCE_USED = "nonce_used"
    REORGANISED = "reorganised"
    ALLOCATED = "allocated"
    UNDERFUNDED = "underfunded"
    LIMITS = "limits"
    REFUSED = "refused"
    FEE_CAPPED = "fee_capped"
    REPLACEMENTS_SPENT = "replacements_spent"
    BEHIND_LOWER_NONCE = "behind_lower_nonce"
    UNSENT = "unsent"
    AMBIGUOUS = "ambiguous"
    UNDERPRICED = "underpriced"
    DROPPED = "dropped"
    IN_MEMPOOL = "in_mempool"
    UNSEEN = "unseen"
    LANE_HELD = "lane_held"
    CANCEL_REQUESTED = "cancel_requested"


@frozen
class TxReason:
    """One cause, told."""

    code: TxCause
    sentence: str


@frozen
class TxExplanation:
    """Why a lineage is where it is, the first thing first."""

    lineage_id: UUID
    job_id: UUID | None
    state: str
    summary: str
    causes: tuple[TxReason, ...]
    next_action: str
    # When something happens by itself next, where that is known.
    next_at: datetime | None
    facts: LineageFacts


@frozen
class DoubtfulLine:
    """A lineage that is not surely sent and not surely not, or that is held: one line of `tx ambiguous`."""

    lineage_id: UUID
    job_id: UUID | None
    signer: Address
    nonce: int
    state: str
    hold: Hold | None
    hold_reason: str | None
    held_at: datetime | None
    tx_hash: bytes | None
    member_state: str | None
    last_answer: str | None
    last_answered_at: datetime | None


@frozen
class LaneLine:
    """One lane of any pool of the environment: one line of `tayho lanes`."""

    role: str
    signer: Address
    state: str
    state_reason: str | None
    next_nonce: int
    latest_nonce: int | None
    pending_nonce: int | None
    in_flight: int
    held: int
    oldest_open_seconds: float | None
    balance_wei: int | None
    is_delegated: bool
    world: int
    observed_at: datetime | None


@frozen
class PoolLook:
    """One pool's lanes, and how many of its open lineages are in each state and under each hold ("" for none)."""

    lanes: tuple[LaneLine, ...]
    lineages: Mapping[tuple[str, str], int]
