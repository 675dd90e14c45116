"""The values of replacement: what is looked at, what is decided, what an operator may wish."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias
from uuid import UUID

from attrs import frozen

from rpc.values import Receipt
from tayho.kernel.address import Address
from tayho.transactions.types import Fee, Lineage, Market, OpenMember, SignedMember

Hold: TypeAlias = Literal["fee_capped", "replacements_spent", "refused"]
Cause: TypeAlias = Literal["stuck", "bump_requested", "cancel_requested"]


@frozen
class Candidate:
    """An open lineage that may want another transaction at its nonce, as the journal has it."""

    lineage: Lineage
    # All that were ever signed, oldest first. Invariant: not empty, and `active` is the last.
    tx_hashes: tuple[bytes, ...]
    active: OpenMember
    cancellations: int
    hold: str | None
    was_paying_when_held: bool
    # What a node said last to the active one, as a class of the table of answers.
    answer_reason: str | None
    # No lower nonce of the lane is without a block.
    is_lowest: bool
    # TX_STUCK_SECONDS have gone since the active one was signed, or since a hold was lifted.
    is_overdue: bool
    # Not so long ago another nonce had to be mined first.
    was_behind: bool
    is_bump_wanted: bool
    is_cancel_wanted: bool

    @property
    def replacements(self) -> int:
        """How often the call was replaced by itself; a cancellation is no replacement of the call."""
        return len(self.tx_hashes) - self.cancellations - 1

    @property
    def cause(self) -> Cause | None:
        """What asks for another transaction now; None where nothing does. Only the lowest nonce of a lane is bumped."""
        if self.is_cancel_wanted and not self.active.is_cancellation:
            return "cancel_requested"
        if self.is_lowest and self.is_bump_wanted:
            return "bump_requested"
        return "stuck" if self.is_lowest and self.is_overdue else None


@frozen
class Sight:
    """What a majority of the nodes shows. What they do not agree on is absent and decides nothing."""

    market: Market
    receipts: Mapping[bytes, Receipt | None]
    nonces: Mapping[Address, int]
    # What sits in a pool at the nonce, where a node tells; asked only for what a node called underpriced.
    incumbents: Mapping[bytes, Fee]


@frozen
class Limits:
    """What the operator allows: TX_FEE_BUMP_BASIS_POINTS, TX_MAX_FEE_PER_GAS_WEI, TX_MAX_REPLACEMENTS."""

    bump_basis_points: int
    fee_wei_max: int
    replacements_max: int


@frozen
class Replace:
    """Sign again at the same nonce, with this fee: the same call, or the cancellation of it."""

    fee: Fee
    cause: Cause
    is_cancellation: bool


@frozen
class Keep:
    """Sign no more for now, and show why. The bytes that are there are still sent again (TX-7)."""

    hold: Hold
    reason: str
    # A block could take the bytes as they are: then a cheaper market is no reason to lift the hold.
    pays_the_market: bool


@frozen
class Release:
    """What held the lineage is gone."""

    reason: str


@frozen
class LetBe:
    """Nothing to do."""


Decision: TypeAlias = Replace | Keep | Release | LetBe


@frozen
class Renewal:
    """A transaction signed to replace the candidate's active one."""

    candidate: Candidate
    cause: Cause
    member: SignedMember


Act: TypeAlias = Literal["bump", "cancel"]


@frozen
class Standing:
    """What of a lineage decides over a wish."""

    lineage_id: UUID
    purpose: str
    job_id: UUID | None
    signer: Address
    nonce: int
    state: str
    included_block_number: int | None
    is_cancel_wanted: bool
    mined_tx_hash: bytes | None


@frozen
class Wished:
    """The wish stands. `is_new` is False where it stood already."""

    lineage_id: UUID
    job_id: UUID | None
    signer: Address
    nonce: int
    is_new: bool
