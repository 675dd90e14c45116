"""What transactions shows to the hosts and to a person's eyes."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from attrs import frozen

from tayho.kernel.address import Address


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


@frozen
class LaneStatus:
    """One lane as an operator sees it."""

    signer: Address
    state: str
    state_reason: str | None
    next_nonce: int
    in_flight: int


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
