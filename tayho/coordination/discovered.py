"""Jobs that several replicas discover at once, each with what it saw itself: the first of a key stands (DLV-13)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tayho.coordination.producing import array_text, checked_documents
from tayho.coordination.store import ENQUEUE, FIND_BY_KEY
from tayho.coordination.types import Enqueued, NewJob
from tayho.kernel.ids import new_id

if TYPE_CHECKING:
    from storage.database import Connection


async def enqueue_found(tx: Connection, chain_id: int, environment: str, jobs: Sequence[NewJob]) -> list[Enqueued]:
    """As `enqueue_in`, where a taken key is never a conflict: two oracles seldom read the same number.

    Raises DocumentRefused.
    """
    documents = checked_documents(jobs)
    keys = [job.idempotency_key for job in jobs]
    rows = await ENQUEUE(
        tx,
        chain_id,
        environment,
        [new_id() for _ in jobs],
        keys,
        [job.role for job in jobs],
        [job.kind for job in jobs],
        documents,
        [job.priority for job in jobs],
        [job.run_at for job in jobs],
        [job.limit_key for job in jobs],
        [array_text(job.tags) for job in jobs],
        False,
    )
    made = {row["idempotency_key"] for row in rows}
    # In a statement of its own: the first one's snapshot may be older than the commit that it waited for.
    found = await FIND_BY_KEY(tx, chain_id, environment, keys, [job.kind for job in jobs], documents)
    rows_by_key = {row["idempotency_key"]: row for row in found}
    return [
        Enqueued(rows_by_key[key]["job_id"], key, created=key in made, state=rows_by_key[key]["state"]) for key in keys
    ]
