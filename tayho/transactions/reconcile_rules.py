"""What a reconciler does with one open lineage, from what the chain shows: pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias
from uuid import UUID

from attrs import frozen

from rpc.truth import Sight
from rpc.values import Receipt
from tayho.kernel.address import Address
from tayho.transactions.types import Final, OpenMember


@frozen
class OpenLineage:
    """A lineage that is signed and not yet final, with every member it may be mined under, oldest first."""

    lineage_id: UUID
    purpose: str
    job_id: UUID | None
    signer: Address
    nonce: int
    state: str
    included_block_number: int | None
    # Invariant: not empty; the last is the active one, and has the highest fees.
    members: tuple[OpenMember, ...]
    # Its job goes on without it: only a cancellation of it may be sent, and whatever is mined ends no job.
    is_unwanted: bool = False
    # Its kind reads the receipt's logs before anything ends.
    needs_result: bool = False

    @property
    def tx_hashes(self) -> tuple[bytes, ...]:
        return tuple(member.tx_hash for member in self.members)

    @property
    def active(self) -> OpenMember:
        return self.members[-1]

    @property
    def may_be_sent(self) -> bool:
        """Whether the active member may be sent again: the call of an unwanted lineage may not."""
        return self.active.is_cancellation or not self.is_unwanted

    def is_cancelled_by(self, tx_hash: bytes) -> bool:
        """Whether this member is the operator's cancellation and not the job's call."""
        return any(member.is_cancellation for member in self.members if member.tx_hash == tx_hash)


@frozen
class ChainView:
    """One look at the chain. What could not be read is absent, which is another thing than read and not there."""

    head_block_number: int
    # The canonical hash at each height that a receipt names.
    canonical_hashes: Mapping[int, bytes]
    # None where the chain has no receipt.
    receipts: Mapping[bytes, Receipt | None]
    latest_nonces: Mapping[Address, int]
    pending_nonces: Mapping[Address, int]

    def shows(self, lineage: OpenLineage) -> bool:
        """Whether everything that a decision about the lineage needs was read."""
        receipts = [self.receipts.get(tx_hash) for tx_hash in lineage.tx_hashes]
        return (
            all(tx_hash in self.receipts for tx_hash in lineage.tx_hashes)
            and all(receipt is None or receipt.block_number in self.canonical_hashes for receipt in receipts)
            and lineage.signer in self.latest_nonces
            and lineage.signer in self.pending_nonces
        )


def view_of(sight: Sight) -> ChainView:
    """What decisions need of a look."""
    return ChainView(
        head_block_number=sight.head.number,
        canonical_hashes=sight.canonical_hashes,
        receipts=sight.receipts,
        latest_nonces={Address(account): nonce for account, nonce in sight.nonces.items()},
        pending_nonces={Address(account): nonce for account, nonce in sight.pending_nonces.items()},
    )


@frozen
class Included:
    """A member is mined, and not deep enough yet."""

    block_number: int


@frozen
class Resend:
    """No node shows the transaction: send the same bytes again."""

    tx_hash: bytes


@frozen
class Wait:
    """Nothing to do but look again."""


@frozen
class Unseen:
    """The chain did not show enough of it this time."""


Decision: TypeAlias = Final | Included | Resend | Wait | Unseen


def decide(lineage: OpenLineage, view: ChainView, confirmations: int) -> Decision:
    """Finalise only a receipt whose block is canonical and `confirmations` below the head (I9); never guess.

    Whichever member is mined counts, not the newest. A nonce that the chain has used up without a receipt of ours is
    left alone: a lagging node shows the same picture. Where something could not be read, nothing is decided.
    """
    if not view.shows(lineage):
        return Unseen()
    for tx_hash in lineage.tx_hashes:
        receipt = view.receipts.get(tx_hash)
        if receipt is None or view.canonical_hashes[receipt.block_number] != receipt.block_hash:
            continue
        if view.head_block_number - receipt.block_number >= confirmations:
            return Final(tx_hash, receipt)
        return Included(receipt.block_number)
    if view.latest_nonces[lineage.signer] > lineage.nonce or not lineage.may_be_sent:
        return Wait()
    if lineage.state == "signed" or view.pending_nonces[lineage.signer] <= lineage.nonce:
        return Resend(lineage.tx_hashes[-1])
    return Wait()


def inclusion_changes(lineages: Sequence[OpenLineage], decisions: Sequence[Decision]) -> list[tuple[UUID, int | None]]:
    """Where the noted inclusion differs from what was seen now; None where a receipt has vanished again."""
    changes: list[tuple[UUID, int | None]] = []
    for lineage, decision in zip(lineages, decisions, strict=True):
        if isinstance(decision, (Final, Unseen)):
            continue
        seen = decision.block_number if isinstance(decision, Included) else None
        if seen != lineage.included_block_number:
            changes.append((lineage.lineage_id, seen))
    return changes
