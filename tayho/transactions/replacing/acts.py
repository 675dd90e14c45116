"""What an operator may wish of a lineage: a higher fee, or its cancellation (TX-7, TX-10).

A wish is a row, and no more: whoever holds the keys finds it, and whichever transaction is mined decides.
"""

from __future__ import annotations

from uuid import UUID

from storage.commits import again_if_lost
from storage.database import Database
from storage.rows import value_from
from tayho.kernel.address import Address
from tayho.kernel.steps import step
from tayho.transactions import store
from tayho.transactions.errors import ActRefused, FillerNeeded, LineageEnded, LineageUnknown, NothingSigned, UnderBlock
from tayho.transactions.replacing.types import Act, Standing, Wished


def refusal_of(act: Act, standing: Standing) -> ActRefused | None:
    """Why the wish makes no sense any more, or None. What was mined is told as it is, whatever was wished."""
    if standing.state not in ("allocated", "signed", "broadcast"):
        return LineageEnded(standing.lineage_id, standing.state, standing.mined_tx_hash)
    if standing.included_block_number is not None:
        return UnderBlock(standing.lineage_id, standing.included_block_number)
    if act == "cancel" and standing.purpose == "filler":
        return FillerNeeded(standing.lineage_id, standing.nonce)
    if act == "bump" and standing.state == "allocated":
        return NothingSigned(standing.lineage_id)
    return None


class LineageControl:
    """The wishes about the lineages of one (chain, environment). Needs a database alone.

    Each may raise StoreUnavailable, with nothing done, and CommitUnknown: asking again is right.
    """

    def __init__(self, database: Database, chain_id: int, environment: str) -> None:
        self._database = database
        self._chain_id = chain_id
        self._environment = environment

    async def request(self, act: Act, named: UUID | bytes, actor: str, reason: str) -> Wished:
        """Record the wish, with who and why, for the lineage of this id, job or transaction hash.

        Raises ActRefused: LineageUnknown, LineageEnded, UnderBlock, FillerNeeded, NothingSigned.
        """

        async def once() -> Wished:
            async with self._database.transaction() as tx:
                key, tx_hash = (named, None) if isinstance(named, UUID) else (None, named)
                row = await store.LOCK_NAMED(tx, self._chain_id, self._environment, key, tx_hash)
                if row is None:
                    raise LineageUnknown(named)
                standing = value_from(Standing, row, signer=Address(row["signer"]))
                refusal = refusal_of(act, standing)
                if refusal is not None:
                    raise refusal
                written = await store.WISH(tx, standing.lineage_id, act, actor, reason)
            step("replace.after_wish")
            return value_from(Wished, row, signer=standing.signer, is_new=bool(written))

        return await again_if_lost(once)
