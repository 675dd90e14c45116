"""What people do to jobs, queues and limits."""

from __future__ import annotations

from uuid import UUID

from attrs import frozen

from storage.database import Database
from tayho.coordination.control.errors import ControlRefused
from tayho.coordination.control.jobs import JobControl
from tayho.coordination.control.throttles import Throttles
from tayho.coordination.control.types import Deed
from tests.simulation.delivery.clockwork import ROLE
from tests.simulation.delivery.replica import CHAIN_ID

DEED = Deed("the simulation", "simulated")


@frozen
class Control:
    database: Database
    environment: str

    @property
    def _jobs(self) -> JobControl:
        return JobControl(self.database, CHAIN_ID, self.environment)

    @property
    def _throttles(self) -> Throttles:
        return Throttles(self.database, CHAIN_ID, self.environment)

    async def pause(self, kind: str) -> None:
        await self._throttles.pause(ROLE, DEED, kind=kind)

    async def resume(self, kind: str) -> None:
        await self._throttles.resume(ROLE, DEED, kind=kind)

    async def cancel(self, job_id: UUID) -> bool:
        """Whether the job is cancelled, or asked to stop."""
        try:
            await self._jobs.cancel(job_id, DEED)
        except ControlRefused:
            return False
        return True

    async def replay(self, job_id: UUID) -> int | None:
        """The attempts that a dead job had before it was queued again; None for a job that was not dead."""
        record = await self._jobs.inspect(job_id)
        try:
            await self._jobs.replay(job_id, DEED)
        except ControlRefused:
            return None
        assert record is not None
        return record.attempt_number

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
