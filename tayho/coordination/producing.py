"""The face of coordination for producers: a job and the promise of its delivery, in the caller's transaction, once per
idempotency key (DLV-1, DLV-2). Light: it loads nothing that opens connections, so that any program may carry it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tayho.coordination.store import ENQUEUE, FIND_BY_KEY, FORGET_BATCH, KEEP_BATCH, MARK_BATCH
from tayho.coordination.types import Enqueued, IdempotencyConflict, NewJob, Transaction
from tayho.kernel import json_document
from tayho.kernel.ids import new_id

if TYPE_CHECKING:
    from storage.connection import Row


async def enqueue_in(
    tx: Transaction, chain_id: int, environment: str, jobs: Sequence[NewJob], *, wakes: bool = False
) -> list[Enqueued]:
    """Record the jobs in the caller's open transaction; before its commit neither job nor outbox row exists.

    `wakes`: publishers hear of it at the commit; otherwise they find it at their next poll.

    Under READ COMMITTED, concurrent callers of one key wait for the first one's commit and get its job; no statement
    of theirs fails. Raises IdempotencyConflict and DocumentRefused; after both nothing of the jobs is recorded, and the
    caller's transaction stays usable.
    """
    documents = checked_documents(jobs)
    if len(jobs) == 1:
        # A single conflict has recorded nothing that would have to be forgotten.
        return await record(tx, chain_id, environment, jobs, documents, wakes=wakes)
    await MARK_BATCH(tx)
    conflict: IdempotencyConflict | None = None
    answers: list[Enqueued] = []
    try:
        answers = await record(tx, chain_id, environment, jobs, documents, wakes=wakes)
    except IdempotencyConflict as error:
        conflict = error
    if conflict is not None:
        await FORGET_BATCH(tx)
        raise conflict
    await KEEP_BATCH(tx)
    return answers


def checked_documents(jobs: Sequence[NewJob]) -> list[str]:
    """The requests as PostgreSQL takes them. Raises DocumentRefused."""
    return [json_document.check(dict(job.request)).decode() for job in jobs]


async def record(
    tx: Transaction,
    chain_id: int,
    environment: str,
    jobs: Sequence[NewJob],
    documents: Sequence[str],
    *,
    wakes: bool,
) -> list[Enqueued]:
    """As `enqueue_in`, for jobs whose documents are checked; what a conflict in a batch leaves is the caller's."""
    rows = await ENQUEUE(
        tx,
        chain_id,
        environment,
        [new_id() for _ in jobs],
        [job.idempotency_key for job in jobs],
        [job.role for job in jobs],
        [job.kind for job in jobs],
        documents,
        [job.priority for job in jobs],
        [job.run_at for job in jobs],
        [job.limit_key for job in jobs],
        [array_text(job.tags) for job in jobs],
        wakes,
    )
    return await found_or_made(tx, chain_id, environment, jobs, documents, rows)


async def found_or_made(
    tx: Transaction,
    chain_id: int,
    environment: str,
    jobs: Sequence[NewJob],
    documents: Sequence[str],
    rows: Sequence[Row],
) -> list[Enqueued]:
    """The answer for each job: its row if this call made it, else the job that its key stands for already.

    Raises IdempotencyConflict.
    """
    created = {row["idempotency_key"]: row for row in rows}
    found = await _find(tx, chain_id, environment, jobs, documents, created)
    return [_answer(job, created, found) for job in jobs]


async def _find(
    tx: Transaction,
    chain_id: int,
    environment: str,
    jobs: Sequence[NewJob],
    documents: Sequence[str],
    created: dict[str, Row],
) -> dict[str, list[Row]]:
    """Read back the jobs that this call did not make, and those that it was asked for more than once."""
    asked = list(zip(jobs, documents, strict=True))
    if len(created) == len(asked):
        return {}
    rows = await FIND_BY_KEY(
        tx,
        chain_id,
        environment,
        [job.idempotency_key for job, _ in asked],
        [job.kind for job, _ in asked],
        [document for _, document in asked],
    )
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(row["idempotency_key"], []).append(row)
    return found


def _answer(job: NewJob, created: dict[str, Row], found: dict[str, list[Row]]) -> Enqueued:
    for row in found.get(job.idempotency_key, ()):
        if row["recorded_digest"] != row["asked_digest"]:
            raise IdempotencyConflict(job.idempotency_key, row["job_id"], row["recorded_digest"], row["asked_digest"])
    # Taken out, so that the second mention of one key in one call is answered as the repetition that it is.
    made = created.pop(job.idempotency_key, None)
    if made is not None:
        return Enqueued(made["job_id"], job.idempotency_key, created=True, state=made["state"])
    row = found[job.idempotency_key][0]
    return Enqueued(row["job_id"], job.idempotency_key, created=False, state=row["state"])


def array_text(texts: Sequence[str]) -> str:
    """The texts as PostgreSQL writes an array: `unnest` would take arrays of arrays apart."""
    quoted = (text.replace("\\", "\\\\").replace('"', '\\"') for text in texts)
    return "{" + ",".join(f'"{text}"' for text in quoted) + "}"
