"""What is known of a lane on its way out of its pool."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from uuid import UUID

from attrs import field, frozen

from tayho.kernel.address import Address
from tayho.kernel.json_document import Json

# A passing check holds so long; what it found may be another thing afterwards.
CHECK_HOLDS_SECONDS = 15 * 60


@frozen
class LaneNow:
    """A lane as it stands."""

    signer: Address
    environment: str
    role: str
    state: str
    next_nonce: int
    predecessor: Address | None = None


@frozen
class LeftLine:
    """One transaction of a lane that is not final."""

    lineage_id: UUID
    job_id: UUID | None
    purpose: str
    nonce: int
    state: str
    hold: str | None
    # Where a receipt was seen that is not final yet.
    included_block_number: int | None
    open_seconds: float


@frozen
class LaneLeft:
    """What a lane still has to bring to its end, the lowest nonces by name."""

    lineages: int
    lowest: tuple[LeftLine, ...] = ()


@frozen
class LaneDrained:
    """What a drain or its end did; `changed` is false where the lane stood so before."""

    lane: LaneNow
    changed: bool


@frozen
class Missing:
    """One condition that does not hold, and what that rests on in words for a person."""

    code: str
    sentence: str


@frozen
class SignerFacts:
    """What decides whether a signer may leave its pool. None is not agreed by a majority."""

    lane: LaneNow
    is_halted: bool
    lookback_blocks: int
    open_lineages: int
    # Ended so near the head that a reorganisation could give them their nonces back, and the highest block of them.
    revivable_lineages: int
    revivable_block_number_max: int | None
    head_block_number: int | None
    # The account's next nonce at the head, `lookback_blocks` below it, and in the voters' own pools.
    latest_nonce: int | None
    final_nonce: int | None
    pending_nonce: int | None


@frozen
class Subject:
    """What is examined: a signer at its fence, or a key of the journal."""

    signer: Address | None = None
    nonce_fence: int | None = None
    key_id: str | None = None


@frozen
class CheckDone:
    """A check as it was written down. It passed where nothing is missing."""

    check_id: UUID
    checked_at: datetime
    missing: tuple[Missing, ...]
    head_block_number: int | None
    detail: Mapping[str, Json]

    @property
    def has_passed(self) -> bool:
        return not self.missing


@frozen
class CheckSeen:
    """The newest check of a signer, as a rotation finds it."""

    check_id: UUID
    has_passed: bool
    nonce_fence: int
    age_seconds: float


@frozen
class RotationFacts:
    """What decides whether a place is handed over, under the pool's lock. None of `old`: the pool is widened."""

    old: LaneNow | None
    new: LaneNow | None
    check: CheckSeen | None
    open_lineages: int


@frozen
class Rotated:
    """The pool after it. `changed` is false where the place had been handed over before."""

    new: Address
    next_nonce: int
    changed: bool
    old: Address | None = field(default=None)
