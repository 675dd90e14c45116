"""Where a nonce was used, and whether by one of ours: pure (TX-3, TX-4)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from uuid import UUID

from attrs import frozen

from rpc.block_transactions import OtherTransaction, SignedTransaction
from tayho.transactions.types import Foreign, Ours, Unidentified, UsedUp


@frozen
class Bracket:
    """Heights between which an account's count of transactions rose above a nonce.

    Invariant: after `above` the count is higher. After `below` it is not, where `is_below_known`.
    """

    below: int
    above: int
    is_below_known: bool = False

    @property
    def is_closed(self) -> bool:
        """The block at `above` has the transaction."""
        return self.is_below_known and self.above == self.below + 1

    def probes(self, count_max: int) -> list[int]:
        """The heights to ask at next: the lower end until it is known, and evenly what is between."""
        between = range(self.below + 1, self.above)
        stride = max(-(-len(between) // count_max), 1)
        lower = [] if self.is_below_known else [self.below]
        return [*lower, *between[stride - 1 :: stride]]

    def narrowed(self, nonce: int, counts: Mapping[int, int]) -> Bracket | None:
        """The bracket with what was told; None where the nonce was used before it."""
        if counts.get(self.below, 0) > nonce:
            return None
        below = [height for height, count in counts.items() if self.below <= height < self.above and count <= nonce]
        above = [height for height, count in counts.items() if self.below < height < self.above and count > nonce]
        return Bracket(
            max(below, default=self.below), min(above, default=self.above), self.is_below_known or bool(below)
        )


def user_of(
    lineage: UsedUp,
    transactions: Sequence[SignedTransaction | OtherTransaction],
    block_number: int,
    block_hash: bytes,
) -> Foreign | Ours | Unidentified:
    """Which transaction of the block used the lineage's nonce."""
    if any(one.hash in lineage.tx_hashes for one in transactions):
        return Ours()
    for one in transactions:
        if isinstance(one, SignedTransaction) and (one.sender, one.nonce) == (lineage.signer.value, lineage.nonce):
            return Foreign(one.hash, block_number, block_hash)
    return Unidentified(f"block {block_number} has no readable transaction of the account at the nonce")


class Looks:
    """How often each lineage was looked at without an answer. Looks closer together than `apart_seconds` are one."""

    def __init__(self, apart_seconds: float) -> None:
        self._apart_seconds = apart_seconds
        self._looks: dict[UUID, tuple[int, float]] = {}

    def count(self, lineage_id: UUID, now_seconds: float) -> int:
        """One look more at this moment; how many there were."""
        count, last = self._looks.get(lineage_id, (0, float("-inf")))
        if now_seconds - last >= self._apart_seconds:
            count, last = count + 1, now_seconds
        self._looks[lineage_id] = (count, last)
        return count

    def keep(self, lineage_ids: Collection[UUID]) -> None:
        """Forget all others: what is decided, or in doubt no more, begins anew."""
        self._looks = {one: looks for one, looks in self._looks.items() if one in lineage_ids}
