"""What transactions shows to the hosts and to a person's eyes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from enum import Enum
from typing import Literal, TypeAlias
from uuid import UUID

from attrs import field, frozen

from rpc.values import Receipt, shown_hex
from tayho.kernel.address import Address
from tayho.kernel.jobs import Attempt
from tayho.kernel.json_document import Json
from tayho.kernel.opaque import Opaque
from tayho.kinds import Call


@frozen
class TransactionSettings:
    """How this process turns jobs into transactions. Units are in the names."""

    chain_id: int
    environment: str
    role: str
    confirmations: int
    reconcile_seconds: int
    lane_depth: int
    fee_wei_max: int
    reorg_lookback_blocks: int = 64
    stuck_seconds: int = 90
    fee_bump_basis_points: int = 1250
    replacements_max: int = 8
    # 0 keeps all evidence.
    evidence_retention_days: int = 90
    # Which process this is, in what it writes down.
    instance_id: str = "unnamed"


@frozen
class LaneStatus:
    """One lane as an operator sees it."""

    signer: Address
    state: str
    state_reason: str | None
    next_nonce: int
    in_flight: int
    latest_nonce: int | None = None
    pending_nonce: int | None = None
    balance_wei: int | None = None
    is_delegated: bool = False


@frozen
class MemberRecord:
    """One signed transaction of a lineage, without its bytes (TX-12)."""

    tx_hash: bytes
    member_number: int
    state: str
    gas_limit: int
    max_fee_per_gas_wei: int
    max_priority_fee_per_gas_wei: int
    key_id: str
    transaction_type: int
    is_cancellation: bool
    signed_at: datetime
    broadcasts: int
    block_number: int | None
    block_hash: bytes | None
    succeeded: bool | None
    gas_used: int | None
    effective_gas_price_wei: int | None


@frozen
class LineageRecord:
    """A lineage with all that was ever signed for it."""

    lineage_id: UUID
    purpose: str
    signer: Address
    nonce: int
    to_address: Address
    value_wei: int
    state: str
    state_reason: str | None
    included_block_number: int | None
    allocated_at: datetime
    ended_at: datetime | None
    members: tuple[MemberRecord, ...]


@frozen
class EvidenceRecord:
    """What one finality decision rested on (RPC-12). `detail` is who may vote, and who told what about each receipt."""

    evidence_id: int
    kind: str
    lineage_ids: tuple[UUID, ...]
    head_block_number: int
    head_hash: bytes
    detail: Mapping[str, object]
    decided_by: str
    decided_at: datetime


@frozen
class Fee:
    """The fee fields of a transaction, in wei per gas. In a legacy one (type 0) both are its gas price.

    `max_fee_per_blob_gas_wei` is there for blob transactions (EIP-4844) alone.
    """

    max_fee_per_gas_wei: int
    max_priority_fee_per_gas_wei: int
    max_fee_per_blob_gas_wei: int | None = None


# The types that are signed (EIP-2718): with a gas price, and with EIP-1559's two fees.
LEGACY, DYNAMIC = 0, 2


@frozen
class Market:
    """What the chain asks after `block_number`, in wei per gas.

    `base_fee_wei` is None on a chain without EIP-1559; then `tip_wei` is the whole gas price.
    """

    base_fee_wei: int | None
    tip_wei: int
    block_number: int

    @property
    def transaction_type(self) -> int:
        """The type in which new transactions are signed for this market."""
        return LEGACY if self.base_fee_wei is None else DYNAMIC

    @property
    def floor_wei(self) -> int:
        """Below this nothing is mined now."""
        return self.tip_wei if self.base_fee_wei is None else self.base_fee_wei


@frozen
class FeeCapped:
    """The ceiling leaves no room for a replacement that nodes would take and that could be mined."""

    reason: str


@frozen
class LaneNeeds:
    """What the chain asks of a lane: the gas limit of a filler, and in wei the data fee of a usual transaction."""

    filler_gas: int
    data_fee_wei: int = 0


@frozen
class OpenMember:
    """One signed transaction under which an open lineage may be mined."""

    tx_hash: bytes
    member_number: int
    state: str
    is_cancellation: bool
    transaction_type: int
    gas_limit: int
    fee: Fee


@frozen
class Final:
    """A member is mined deep enough: its lineage ends."""

    tx_hash: bytes
    receipt: Receipt


@frozen
class Simulated:
    """The call succeeds at the block asked: its gas limit and the market's fee, for a transaction of this type."""

    gas_limit: int
    fee: Fee
    transaction_type: int = DYNAMIC


@frozen
class WouldRevert:
    """The call reverts deterministically at the block asked. `data` is what it reverted with, for who knows its ABI."""

    reason: str
    block_number: int
    data: bytes = field(default=b"", repr=False)


@frozen
class Lineage:
    """The one (chain, signer, nonce, call hash) of a job, or of a filler, and how far it has come."""

    lineage_id: UUID
    purpose: str
    job_id: UUID | None
    chain_id: int
    signer: Address
    nonce: int
    call: Call
    call_hash: bytes
    state: str
    active_tx_hash: bytes | None = None


@frozen
class SignedMember:
    """A signed transaction on its way into the journal and, after that, to a node."""

    lineage: Lineage
    tx_hash: bytes
    raw: Opaque
    gas_limit: int
    fee: Fee
    key_id: str
    cipher_nonce: bytes
    ciphertext: bytes
    transaction_type: int = 2
    is_cancellation: bool = False


@frozen
class Outgoing:
    """Signed bytes that are in the journal, on their way to a node."""

    tx_hash: bytes
    signer: Address
    nonce: int
    raw: Opaque


AnswerKind: TypeAlias = Literal["accepted", "already_known", "refused", "unknown"]
AnswerReason: TypeAlias = Literal[
    "accepted",
    "already_known",
    "nonce_too_low",
    "nonce_too_high",
    "replacement_underpriced",
    "underpriced",
    "below_base_fee",
    "insufficient_funds",
    "node_fee_cap",
    "gas_too_high",
    "gas_too_low",
    "pool_full",
    "sender_limited",
    "terminally_stuck",
    "fatal",
    "retry_elsewhere",
    "ambiguous",
]
"""The class of an answer in the table of what nodes say (TX-4); `answer_rules.consequence` says what follows."""
Hold: TypeAlias = Literal[
    "fee_capped", "replacements_spent", "underfunded", "limits", "refused", "nonce_used", "result_missing"
]  # fmt: skip
"""Why an open lineage does not move by itself."""


@frozen
class Answer:
    """What one node said to one send."""

    kind: AnswerKind
    detail: str | None = None
    reason: AnswerReason | None = None

    @property
    def is_out(self) -> bool:
        """The node has these very bytes. No proof that it keeps them: only a receipt ends the doubt."""
        return self.kind in ("accepted", "already_known")


@frozen
class Allocation:
    """One job's wish for a nonce, if possible in the lane of the signer with whom its call was simulated."""

    attempt: Attempt
    call: Call
    preferred: Address | None = None
    # Whether the job's kind reads the receipt's logs.
    needs_result: bool = False


@frozen
class Persistence:
    """One signed transaction's way into the journal; without an attempt it is a filler's."""

    attempt: Attempt | None
    member: SignedMember


@frozen
class Answered:
    """One send, and what the endpoint said to it."""

    tx_hash: bytes
    endpoint: str
    answer: Answer


@frozen
class Said:
    """What was said last to one transaction, and how often the same without another word in between."""

    reason: str
    in_a_row: int


@frozen
class Mark:
    """One send that a node has answered."""

    attempt: Attempt
    tx_hash: bytes
    endpoint: str
    answer: Answer


HaltKind: TypeAlias = Literal["finality_violated", "chain_reset", "chain_ahead", "chain_unknown"]
Resolution: TypeAlias = Literal["adopted", "restarted", "gone"]


@frozen
class Halt:
    """Why nothing is signed, sent or finalised for the pool, until an operator says how it goes on."""

    halt_id: UUID
    kind: HaltKind
    evidence: Mapping[str, Json]
    raised_by: str
    raised_at: datetime


@frozen
class LaneFacts:
    """A lane as PostgreSQL has it. What is in flight: open and in no block yet."""

    status: LaneStatus
    world: int
    is_low: bool
    is_pool_dropped: bool
    value_in_flight_wei: int
    gas_in_flight: int
    gas_limit_max: int
    # The highest nonce that a node took long enough ago for pools to show it.
    broadcast_nonce_max: int | None
    # The lowest nonce that is reserved and not signed.
    allocated_nonce_min: int | None

    @property
    def signer(self) -> Address:
        return self.status.signer


FindingKind: TypeAlias = Literal[
    "foreign_nonce", "dropped_mempool", "low_balance", "underfunded", "funded", "blocked", "unblocked", "delegated",
    "undelegated", "world_adopted", "world_restarted",
]  # fmt: skip


@frozen
class Finding:
    """One thing that an operator should know of a lane, said once when it begins."""

    kind: FindingKind
    detail: Mapping[str, Json]


@frozen
class ActDone:
    """What an act changed."""

    resolved: tuple[UUID, ...]
    # Each lane's fence after it.
    fences: Mapping[str, int]
    # Nonces that others used, adopted; or lineages that ended with the old chain.
    foreign_nonces: int = 0
    superseded: int = 0


@frozen
class UsedUp:
    """An open lineage whose nonce the chain has used up, `confirmations` below the head, by a majority."""

    lineage_id: UUID
    # None of a filler, and of a lineage whose job went on without it.
    job_id: UUID | None
    signer: Address
    nonce: int
    tx_hashes: tuple[bytes, ...] = field(repr=shown_hex)


@frozen
class Foreign:
    """The transaction that used the nonce up. It is none of ours."""

    tx_hash: bytes = field(repr=shown_hex)
    block_number: int
    block_hash: bytes = field(repr=shown_hex)


@frozen
class Ours:
    """A member of the lineage used the nonce up: its receipt will come."""


@frozen
class Unidentified:
    """What used the nonce up could not be found out this time."""

    reason: str


class Happening(Enum):
    """What the engine counts. The comment says what the count's label is."""

    ANSWERED = "answered"  # the class of a node's answer to a send
    HELD = "held"  # the kind of hold
    RELEASED = "released"  # the kind of hold
    ENDED = "ended"  # the state that the lineage ended in
    LANE_CLOSED = "lane_closed"  # the state that the lane went to
    REPLACED = "replaced"  # why: the cause of the replacement
    LOOK_FAILED = "look_failed"  # the name of the error; NoQuorum where nothing was agreed
    CONTESTED = "contested"  # the kind of the decision that was contested
    EVIDENCE_DROPPED = "evidence_dropped"  # empty


class Stage(Enum):
    """What the engine times, from the allocation of the nonce on."""

    BROADCAST = "broadcast"  # until a node first took the bytes
    FINAL = "final"  # until a receipt was deep enough


# Called with what happened, its label, and how often.
Observe: TypeAlias = Callable[[Happening, str, int], None]
# Called with what was reached, and after how many seconds.
ObserveSeconds: TypeAlias = Callable[[Stage, float], None]
