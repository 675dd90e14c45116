"""Reading jobs: for people, probes and the command line."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from storage.database import OWN_CONNECTIONS, Connection, Database
from storage.rows import value_from
from tayho.coordination import store
from tayho.coordination.schedule_declarations import declared_of
from tayho.coordination.schedule_rules import next_slot
from tayho.coordination.types import Backlog, JobLine, JobProgress, JobRecord, LiveWorker, RoleAges, ScheduleLine
from tayho.kernel.jobs import Job

# A scrape must not cost more the longer a queue is.
OLDEST_JOBS = 10_000


class JobReader:
    """What a person or a probe may ask about the jobs of one (chain, environment). Needs a database alone."""

    def __init__(self, database: Database, chain_id: int, environment: str) -> None:
        self._database = database
        self._chain_id = chain_id
        self._environment = environment

    async def inspect(self, job_id: UUID) -> JobRecord | None:
        """One job with its whole history, or None when there is none of that id."""
        async with self._database.connection() as connection:
            row = await store.INSPECT(connection, job_id)
            if row is None:
                return None
            return store.job_record_of(row, await store.ATTEMPTS_OF_JOB(connection, job_id))

    async def jobs_by_id(self, connection: Connection, job_ids: Sequence[UUID]) -> dict[UUID, Job]:
        """These jobs as their kinds know them; within the transaction of `connection`, if it has one."""
        rows = await store.JOBS_BY_ID(connection, job_ids)
        return {row["job_id"]: store.job_of(row) for row in rows}

    async def progress(self, connection: Connection, job_ids: Sequence[UUID]) -> list[JobProgress]:
        """How far each has come, in one statement; one that is not there is left out."""
        rows = await store.PROGRESS(connection, self._chain_id, self._environment, list(job_ids))
        return [value_from(JobProgress, row) for row in rows]

    async def states_of(self, job_ids: Sequence[UUID]) -> dict[UUID, str]:
        """The states of these jobs of the chain and environment."""
        async with self._database.connection() as connection:
            rows = await store.STATES_OF(connection, self._chain_id, self._environment, list(job_ids))
        return {row["job_id"]: row["state"] for row in rows}

    async def list_recent(
        self, *, state: str | None = None, role: str | None = None, lines_max: int = 50
    ) -> list[JobLine]:
        """The newest jobs, at most `lines_max`, of one state or role if given."""
        async with self._database.connection() as connection:
            rows = await store.LIST_RECENT(connection, self._chain_id, self._environment, state, role, lines_max)
        return [store.job_line_of(row) for row in rows]

    async def count_by_state(self) -> dict[str, int]:
        """How many jobs are in each state. Reads every job: for people and demos, not for a hot path."""
        async with self._database.connection() as connection:
            rows = await store.COUNT_BY_STATE(connection, self._chain_id, self._environment)
        return {row["state"]: row["jobs"] for row in rows}

    async def count_by_kind(self) -> dict[str, dict[str, int]]:
        """How many jobs of each kind are in each state. Reads every job, as `count_by_state` does."""
        async with self._database.connection() as connection:
            rows = await store.COUNT_BY_KIND(connection, self._chain_id, self._environment)
        found: dict[str, dict[str, int]] = {}
        for row in rows:
            found.setdefault(row["kind"], {})[row["state"]] = row["jobs"]
        return found

    async def backlog(self) -> Backlog:
        """How far the outbox is behind."""
        async with self._database.connection() as connection:
            row = await store.BACKLOG(connection, self._chain_id, self._environment)
        if row is None:
            return Backlog(0, 0, 0)
        return Backlog(row["rows"], row["unpublished"], row["oldest_due_seconds"])

    async def ages_by_role(self) -> list[RoleAges]:
        """The oldest that waits and the oldest that runs, of each role that has any. Of more than OLDEST_JOBS open jobs
        those that were enqueued last are not looked at."""
        async with self._database.connection() as connection:
            rows = await store.AGES_BY_ROLE(connection, self._chain_id, self._environment, OLDEST_JOBS)
        return [value_from(RoleAges, row) for row in rows]

    async def live_workers(self, *, silent_seconds_max: float = 30) -> list[LiveWorker]:
        """The workers whose last heartbeat is recent, oldest first."""
        async with self._database.connection() as connection:
            rows = await store.LIVE_WORKERS(connection, self._chain_id, self._environment, float(silent_seconds_max))
        return [value_from(LiveWorker, row, roles=tuple(row["roles"])) for row in rows]

    async def list_schedules(self) -> list[ScheduleLine]:
        """Every schedule that was ever declared, by name, with its next slot on PostgreSQL's clock."""
        async with self._database.connection() as connection:
            rows = await store.LIST_SCHEDULES(connection, self._chain_id, self._environment)
        lines: list[ScheduleLine] = []
        for row in rows:
            declared = declared_of(row["name"], row["declaration"])
            coming = None if declared is None else next_slot(declared.schedule, row["now"])
            lines.append(value_from(ScheduleLine, row, next_slot_at=coming))
        return lines

    async def connections_wanted(self, pool_size: int, *, silent_seconds_max: float = 30) -> tuple[int, int]:
        """What all live processes may open together if their pools are of this size, and what the server takes."""
        async with self._database.connection() as connection:
            row = await store.CONNECTIONS_OF_SERVER(connection, float(silent_seconds_max))
        return (0, 0) if row is None else (row["live"] * (pool_size + OWN_CONNECTIONS), row["connections"])
