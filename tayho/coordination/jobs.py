"""Enqueue in a transaction of our own: tried again when it lost a race, told as unknown when its commit is."""

from __future__ import annotations

from collections.abc import Sequence

from storage.database import Database
from storage.errors import SerializationLost
from tayho.coordination.producing import checked_documents, record
from tayho.coordination.types import Enqueued, NewJob
from tayho.kernel.steps import step

_TRIES_MAX = 5


async def enqueue(database: Database, chain_id: int, environment: str, jobs: Sequence[NewJob]) -> list[Enqueued]:
    """Record the jobs, all or none, in a transaction of our own. Raises as `enqueue_in`, and CommitUnknown.

    After CommitUnknown the caller asks again with the same keys: whatever had been recorded is found, not doubled.
    """
    documents = checked_documents(jobs)
    for remaining in reversed(range(_TRIES_MAX)):
        try:
            async with database.transaction() as tx:
                answers = await record(tx, chain_id, environment, jobs, documents, wakes=False)
            step("enqueue.after_commit")
        except SerializationLost:
            # Two callers with the same keys in another order can deadlock; PostgreSQL ends one of them.
            if remaining == 0:
                raise
        else:
            return answers
    raise AssertionError("the last try returns or raises")
