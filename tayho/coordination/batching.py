"""Jobs that another job carries out: admitted, batched under a parent, ended by its result (INT-3, INT-4, INT-7)."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from storage.database import Connection
from tayho.coordination import store
from tayho.coordination.producing import array_text, checked_documents, found_or_made
from tayho.coordination.types import Enqueued, NewJob, Quarantine, Settlement
from tayho.kernel.ids import new_id


async def admit(tx: Connection, chain_id: int, environment: str, jobs: Sequence[NewJob]) -> list[Enqueued]:
    """Record jobs that wait for a batch, one a key; none is promised to a queue. Raises IdempotencyConflict."""
    documents = checked_documents(jobs)
    rows = await store.ADMIT(
        tx,
        chain_id,
        environment,
        [new_id() for _ in jobs],
        [job.idempotency_key for job in jobs],
        [job.role for job in jobs],
        [job.kind for job in jobs],
        documents,
        [job.priority for job in jobs],
        [job.limit_key for job in jobs],
        [array_text(job.tags) for job in jobs],
    )
    return await found_or_made(tx, chain_id, environment, jobs, documents, rows)


async def batch_if_pending(tx: Connection, job_ids: Sequence[UUID]) -> frozenset[UUID]:
    return store.ids_of(await store.BATCH_IF_PENDING(tx, list(job_ids)))


async def quarantine_if_pending(tx: Connection, quarantines: Sequence[Quarantine]) -> frozenset[UUID]:
    rows = await store.QUARANTINE_IF_PENDING(
        tx, [one.job_id for one in quarantines], [dict(one.detail) for one in quarantines]
    )
    return store.ids_of(rows)


async def settle_if_batched(tx: Connection, settlements: Sequence[Settlement]) -> frozenset[UUID]:
    rows = await store.SETTLE_IF_BATCHED(
        tx,
        [one.job_id for one in settlements],
        [one.state for one in settlements],
        [dict(one.detail) for one in settlements],
    )
    return store.ids_of(rows)


async def release_if_batched(tx: Connection, job_ids: Sequence[UUID]) -> frozenset[UUID]:
    await store.PERMIT_CHILDREN(tx, "release")
    return store.ids_of(await store.RELEASE_IF_BATCHED(tx, list(job_ids)))


async def restore_if_ended(tx: Connection, job_ids: Sequence[UUID]) -> frozenset[UUID]:
    await store.PERMIT_CHILDREN(tx, "restore")
    return store.ids_of(await store.RESTORE_IF_ENDED(tx, list(job_ids)))
