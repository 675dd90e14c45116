"""Jobs whose end the chain took back go on (TX-6, DLV-7)."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from storage.database import Connection
from tayho.coordination import store
from tayho.coordination.batching import restore_children
from tayho.coordination.types import Revival


async def lock_jobs(tx: Connection, job_ids: Sequence[UUID]) -> None:
    """Hold the jobs until `tx` ends, in the order in which every other path locks them."""
    await store.LOCK_JOBS(tx, sorted(job_ids))


async def revive(tx: Connection, revivals: Sequence[Revival]) -> frozenset[UUID]:
    """The jobs that own their lineage again and wait in `retry` for their next attempt; the others are as they were.

    What a revived batch carried, and had ended with it, is under it again.
    """
    await lock_jobs(tx, [revival.job_id for revival in revivals])
    await store.PERMIT_REVIVAL(tx)
    rows = await store.REVIVE(
        tx, [revival.job_id for revival in revivals], [dict(revival.detail) for revival in revivals]
    )
    revived = store.ids_of(rows)
    await restore_children(tx, sorted(revived))
    return revived
