"""Enqueue: a job and the promise of its delivery, in one transaction, once per idempotency key (DLV-1, DLV-2)."""

from __future__ import annotations

from collections.abc import Sequence

from storage.database import Connection, Database, Row
from storage.errors import SerializationLost
from tayho.coordination.store import ENQUEUE, FIND_BY_KEY
from tayho.coordination.types import Enqueued, IdempotencyConflict, NewJob
from tayho.kernel import json_document
from tayho.kernel.ids import new_id
from tayho.kernel.steps import step

_TRIES_MAX = 5


async def enqueue_in(tx: Connection, chain_id: int, environment: str, jobs: Sequence[NewJob]) -> list[Enqueued]:
    """Record the jobs in the caller's open transaction; before its commit neither job nor outbox row exists.

    Under READ COMMITTED, concurrent callers of one key wait for the first one's commit and get its job; no statement
    of theirs fails. Raises IdempotencyConflict and DocumentRefused; the caller's transaction stays usable after both.
    """
    documents = [json_document.check(dict(job.request)).decode() for job in jobs]
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
        [_array_text(job.tags) for job in jobs],
    )
    created = {row["idempotency_key"]: row for row in rows}
    found = await _find(tx, chain_id, environment, jobs, documents, created)
    return [_answer(job, created, found) for job in jobs]


async def enqueue(database: Database, chain_id: int, environment: str, jobs: Sequence[NewJob]) -> list[Enqueued]:
    """Record the jobs, all or none, in a transaction of our own. Raises as `enqueue_in`, and CommitUnknown.

    After CommitUnknown the caller asks again with the same keys: whatever had been recorded is found, not doubled.
    """
    for remaining in reversed(range(_TRIES_MAX)):
        try:
            async with database.transaction() as tx:
                answers = await enqueue_in(tx, chain_id, environment, jobs)
            step("enqueue.after_commit")
        except SerializationLost:
            # Two callers with the same keys in another order can deadlock; PostgreSQL ends one of them.
            if remaining == 0:
                raise
        else:
            return answers
    raise AssertionError("the last try returns or raises")


async def _find(
    tx: Connection,
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


def _array_text(texts: Sequence[str]) -> str:
    """The texts as PostgreSQL writes an array: `unnest` would take arrays of arrays apart."""
    quoted = (text.replace("\\", "\\\\").replace('"', '\\"') for text in texts)
    return "{" + ",".join(f'"{text}"' for text in quoted) + "}"
