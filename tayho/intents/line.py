"""The line for people and gauges, and what an operator does with a batch that took no effect (INT-7)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeAlias
from uuid import UUID

from storage.database import Connection, Database
from storage.rows import value_from
from tayho.intents import store
from tayho.intents.errors import LineDrifted
from tayho.intents.types import LineLook, LinePlace
from tayho.kernel.steps import step

# Lets the jobs of a batch's children wait again, in the caller's transaction; raises where that may not be.
LetGo: TypeAlias = Callable[[Connection, UUID], Awaitable[frozenset[UUID]]]


class Line:
    """The line of one (chain, environment). Needs a database alone."""

    def __init__(self, database: Database, chain_id: int, environment: str) -> None:
        self._database = database
        self._of = (chain_id, environment)

    async def register(self) -> None:
        """Make sure that there is a line. Replicas may do it at once."""
        async with self._database.connection() as connection:
            await store.REGISTER_LINE(connection, *self._of)
        step("intent.after_register")

    async def look(self) -> LineLook:
        """How long it is. Raises StorageError."""
        async with self._database.connection() as connection:
            row = await store.LOOK_AT_LINE(connection, *self._of)
        return LineLook(0, 0.0) if row is None else value_from(LineLook, row)

    async def places(self, named: UUID | bytes | None = None, *, lines_max: int = 50) -> list[LinePlace]:
        """From the front of the line; or those of one batch, or the one of a job or a digest. Raises StorageError."""
        job_id, digest = (named, None) if isinstance(named, UUID) else (None, named)
        async with self._database.connection() as connection:
            rows = await store.PLACES(connection, *self._of, job_id, digest, lines_max)
        return [store.place_of(row) for row in rows]

    async def release(self, batch_job_id: UUID, let_go: LetGo) -> int:
        """Let what a batch carried wait again, each at its old place in the line; how many.

        Raises what `let_go` raises, with nothing changed, StorageError, CommitUnknown: then asking again tells.
        """
        async with self._database.transaction() as tx:
            job_ids = await let_go(tx, batch_job_id)
            released = frozenset(row["job_id"] for row in await store.RELEASE_CHILDREN(tx, batch_job_id))
            if released != job_ids:
                raise LineDrifted(f"batch {batch_job_id} has {len(job_ids)} jobs to let go and {len(released)} places")
            await store.REJOIN_LINE(tx, sorted(job_ids))
        step("batch.after_release")
        return len(job_ids)
