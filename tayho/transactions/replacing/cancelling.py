"""The end of an allocation that an operator does not want and nobody has signed (TX-10)."""

from __future__ import annotations

import structlog

from storage.database import Connection, Database
from tayho.contracts.coordination import Coordination, Settlement
from tayho.kernel.ids import new_id
from tayho.kernel.steps import step
from tayho.transactions import store
from tayho.transactions.errors import LineageDrifted, PoolHalted
from tayho.transactions.fillers import filler_call_hash
from tayho.transactions.halts import held_unhalted
from tayho.transactions.types import Lineage, TransactionSettings

log = structlog.get_logger("tayho.replacing")

CANCELLED_UNSIGNED = "CancelledUnsigned"


async def cancel_unsigned(
    database: Database, coordination: Coordination, settings: TransactionSettings, lineage: Lineage
) -> None:
    """End lineage and job together: the nonce goes back to the fence, or a filler takes it.

    An attempt that signs it meanwhile is fenced off with the job, before its bytes are in the journal. Where it was
    first, nothing is changed: the next round finds bytes to replace. Raises StorageError, PoolHalted.
    """
    try:
        async with database.transaction() as tx:
            await _end(tx, coordination, settings, lineage)
    except LineageDrifted as drifted:
        log.info("cancellation_postponed", reason=str(drifted))
        return
    step("replace.after_abandon")
    log.info("lineage_cancelled_unsigned", lineage_id=str(lineage.lineage_id), nonce=lineage.nonce)


async def _end(tx: Connection, coordination: Coordination, settings: TransactionSettings, lineage: Lineage) -> None:
    settled: frozenset[object] = frozenset()
    if lineage.job_id is not None:
        message = "an operator cancelled it before anything was signed"
        settlement = Settlement(lineage.job_id, "dead", {"type": CANCELLED_UNSIGNED, "message": message})
        settled = await coordination.settle(tx, [settlement])
    if not await held_unhalted(tx, settings):
        raise PoolHalted
    filler_hash = filler_call_hash(lineage.chain_id, lineage.signer)
    row = await store.ABANDON_UNSIGNED(tx, lineage.lineage_id, "cancelled by an operator", new_id(), filler_hash)
    if row is None or not settled:
        raise LineageDrifted(f"lineage {lineage.lineage_id} or its job went on under us")
    await store.TELL_CANCELLED_UNSIGNED(tx, lineage.lineage_id, lineage.job_id)
