"""What transactions shows to the hosts and to a person's eyes."""

from __future__ import annotations

from datetime import datetime
from typing import Literal, TypeAlias
from uuid import UUID

from attrs import frozen

from tayho.kernel.address import Address
from tayho.kernel.jobs import Attempt
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
class Fee:
    """The fee fields of a transaction, in wei per gas. In a legacy one (type 0) both are its gas price.

    `max_fee_per_blob_gas_wei` is there for blob transactions (EIP-4844) alone.
    """

    max_fee_per_gas_wei: int
    max_priority_fee_per_gas_wei: int
    max_fee_per_blob_gas_wei: int | None = None


@frozen
class Simulated:
    """The call succeeds at the block asked: its gas limit and the market's fee."""

    gas_limit: int
    fee: Fee


@frozen
class WouldRevert:
    """The call reverts deterministically at the block asked."""

    reason: str
    block_number: int


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


AnswerKind: TypeAlias = Literal["accepted", "already_known", "refused", "unknown"]


@frozen
class Answer:
    """What one node said to one send."""

    kind: AnswerKind
    detail: str | None = None
    # The class in the table of what nodes say (TX-4), where the node said anything.
    reason: str | None = None

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


@frozen
class Persistence:
    """One signed transaction's way into the journal; without an attempt it is a filler's."""

    attempt: Attempt | None
    member: SignedMember


@frozen
class Mark:
    """One send that a node has answered."""

    attempt: Attempt
    tx_hash: bytes
    endpoint: str
    answer: Answer
