"""What people do to jobs, queues and limits."""

from __future__ import annotations

from uuid import UUID

from attrs import frozen

from storage.database import Database
from tests.simulation.delivery.clockwork import ROLE
from tests.simulation.delivery.replica import CHAIN_ID


@frozen
class Control:
    database: Database
    environment: str

    async def pause(self, kind: str) -> None:
        async with self.database.transaction() as tx:
            await tx.execute(
                """
                INSERT INTO coordination.pauses (chain_id, environment, role, kind, reason, actor)
                VALUES ($1, $2, $3, $4, 'simulated', 'the simulation') ON CONFLICT DO NOTHING
                """,
                CHAIN_ID, self.environment, ROLE, kind,
            )  # fmt: skip

    async def resume(self, kind: str) -> None:
        async with self.database.transaction() as tx:
            await tx.execute(
                "DELETE FROM coordination.pauses WHERE chain_id = $1 AND environment = $2 AND role = $3 AND kind = $4",
                CHAIN_ID, self.environment, ROLE, kind,
            )  # fmt: skip

    async def cancel(self, job_id: UUID) -> bool:
        """Whether the job is cancelled, or asked to stop."""
        async with self.database.transaction() as tx:
            state = await tx.fetchval("SELECT state FROM coordination.jobs WHERE job_id = $1 FOR UPDATE", job_id)
            if state in {"queued", "retry"}:
                await tx.execute(
                    """
                    UPDATE coordination.jobs SET state = 'dead', cancel_requested_at = clock_timestamp(),
                        ended_at = clock_timestamp(), last_error = '{"type": "Cancelled", "message": "simulated"}'
                    WHERE job_id = $1
                    """,
                    job_id,
                )
                await tx.execute("DELETE FROM coordination.outbox WHERE job_id = $1", job_id)
            elif state == "processing":
                await tx.execute(
                    "UPDATE coordination.jobs SET cancel_requested_at = clock_timestamp() WHERE job_id = $1", job_id
                )
            return state in {"queued", "retry", "processing"}

    async def replay(self, job_id: UUID) -> int | None:
        """The attempts that a dead job had before it was queued again; None for a job that was not dead."""
        async with self.database.transaction() as tx:
            await tx.execute("SELECT set_config('tayho.operation', 'replay', true)")
            row = await tx.fetchrow(
                """
                UPDATE coordination.jobs SET state = 'queued', attempts_spent = 0, generation = generation + 1,
                    cancel_requested_at = NULL, ended_at = NULL, last_error = NULL, run_at = clock_timestamp()
                WHERE job_id = $1 AND state = 'dead'
                RETURNING attempt_number
                """,
                job_id,
            )
            if row is None:
                return None
            await tx.execute(
                """
                INSERT INTO coordination.outbox (job_id, chain_id, environment, due_at, limit_key, rank_at)
                SELECT job_id, chain_id, environment, now(), limit_key, now() FROM coordination.jobs WHERE job_id = $1
                """,
                job_id,
            )
            return row["attempt_number"]

    async def limit(self, limit_key: str, concurrent_max: int) -> None:
        """Let so many jobs of the key be published at once, unless more are already."""
        key = (CHAIN_ID, self.environment, limit_key)
        async with self.database.transaction() as tx:
            await tx.execute(
                """
                INSERT INTO coordination.limits (chain_id, environment, limit_key) VALUES ($1, $2, $3)
                ON CONFLICT DO NOTHING
                """,
                *key,
            )
            # Whoever publishes jobs of the key holds this lock.
            await tx.execute(
                """
                SELECT FROM coordination.limits WHERE chain_id = $1 AND environment = $2 AND limit_key = $3 FOR UPDATE
                """,
                *key,
            )
            await tx.execute(
                """
                UPDATE coordination.limits SET concurrent_max = $4
                WHERE chain_id = $1 AND environment = $2 AND limit_key = $3 AND $4 >= (
                    SELECT count(*) FROM coordination.outbox
                    WHERE chain_id = $1 AND environment = $2 AND limit_key = $3 AND published_at IS NOT NULL
                )
                """,
                *key,
                concurrent_max,
            )
