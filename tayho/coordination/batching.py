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


async def batch_if_pending(tx: Connection, batch_job_id: UUID, job_ids: Sequence[UUID]) -> frozenset[UUID]:
    return store.ids_of(await store.BATCH_IF_PENDING(tx, batch_job_id, list(job_ids)))


async def quarantine_if_pending(tx: Connection, quarantines: Sequence[Quarantine]) -> frozenset[UUID]:
    rows = await store.QUARANTINE_IF_PENDING(
        tx, [one.job_id for one in quarantines], [dict(one.detail) for one in quarantines]
    )
    return store.ids_of(rows)


async def settle_if_batched(tx: Connection, batch_job_id: UUID, settlements: Sequence[Settlement]) -> frozenset[UUID]:
    rows = await store.SETTLE_IF_BATCHED(
        tx,
        batch_job_id,
        [one.job_id for one in settlements],
        [one.state for one in settlements],
        [dict(one.detail) for one in settlements],
    )
    return store.ids_of(rows)


async def release_children(tx: Connection, batch_job_id: UUID) -> frozenset[UUID]:
    """Let what a batch carried wait again. The caller has judged that the batch took no effect and never will."""
    await store.PERMIT_CHILDREN(tx, "release")
    return store.ids_of(await store.RELEASE_CHILDREN(tx, batch_job_id))


async def restore_children(tx: Connection, batch_job_ids: Sequence[UUID]) -> frozenset[UUID]:
    """Put what these batches carried under them again: they live again in `tx` too (INT-7, TX-6)."""
    await store.PERMIT_CHILDREN(tx, "restore")
    return store.ids_of(await store.RESTORE_CHILDREN(tx, list(batch_job_ids)))
