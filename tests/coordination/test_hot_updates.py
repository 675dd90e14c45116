"""What a job's life writes into the indexes of its table: nothing (HOT, heap-only tuples)."""

from __future__ import annotations

from storage.database import Database
from storage.records import Delivery, delivery_id
from tayho.coordination.attempts import End, Ends, begin
from tayho.coordination.jobs import enqueue
from tayho.kernel.ids import new_id
from tests.coordination.conftest import CHAIN_ID, ENVIRONMENT, SETTINGS, Plane, new_job

JOBS, BATCH = 400, 50
COUNTED = (
    "SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables WHERE relname = 'jobs' AND schemaname = 'coordination'"
)


async def test_beginning_and_ending_a_job_writes_no_index(plane: Plane, database_url: str) -> None:
    """Goal: nobody adds an index, or a condition of one, on what changes with a job's state: each change would then
    write every index of the table. Method: four hundred jobs begin and end; PostgreSQL counts its updates."""
    worker_id = await plane.worker()
    async with Database.open(database_url, pool_size=1, application_name="tests") as database:
        for first in range(0, JOBS, BATCH):
            jobs = [new_job(f"key-{number}") for number in range(first, first + BATCH)]
            job_ids = [one.job_id for one in await enqueue(database, CHAIN_ID, ENVIRONMENT, jobs)]
            deliveries = [
                Delivery(delivery_id(job_id, 1), new_id().hex, "kind", {}, 0, 3, 0, None, None, {})
                for job_id in job_ids
            ]
            begun = await begin(
                database,
                database,
                deliveries,
                worker_id=worker_id,
                attempts_max=SETTINGS.attempts_max,
                chain_id=CHAIN_ID,
                environment=ENVIRONMENT,
                kinds=["kind"],
            )
            ends = [End(one.attempt, "completed", {"result": 1}) for one in begun if one.attempt is not None]
            await Ends(database, SETTINGS.attempts_max).end_all_if_current(ends)
        async with database.connection() as connection:
            # The one connection that did it all tells what it did.
            await connection.execute("SELECT pg_stat_force_next_flush()")
        async with database.connection() as connection:
            row = await connection.fetchrow(COUNTED)
    assert row is not None
    assert row["n_tup_upd"] == 2 * JOBS
    assert row["n_tup_hot_upd"] >= 0.9 * row["n_tup_upd"]
