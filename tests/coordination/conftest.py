"""A coordination on its own database and queue."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from functools import cache
from uuid import UUID

import pytest
from attrs import define

from nursery.drain import Drain
from storage.database import Database
from storage.delivery import DeliveryQueue
from storage.records import Delivery, delivery_id
from storage.redis_client import open_redis
from tayho.coordination.attempts import Begun, begin
from tayho.coordination.module import Coordination
from tayho.coordination.outbox import Publisher
from tayho.coordination.types import NewJob, WorkerSettings
from tayho.coordination.workers import WorkerRow
from tayho.kernel.ids import new_id

CHAIN_ID = 31337
ENVIRONMENT = "test"
ROLE = "automation"
SETTINGS = WorkerSettings(
    roles=(ROLE,), concurrency=8, lock_seconds=2, reconcile_seconds=2, attempts_max=3, poll_milliseconds=100
)


@define
class Plane:
    """What a coordination test acts on."""

    database: Database
    queue_of: Callable[[str], DeliveryQueue]
    coordination: Coordination

    @property
    def queue(self) -> DeliveryQueue:
        return self.queue_of(ROLE)

    async def enqueue(self, key: str = "key", **request: object) -> UUID:
        return (await self.coordination.enqueue(new_job(key, **request))).job_id

    async def worker(self) -> UUID:
        """A registered worker that does nothing by itself."""
        row = WorkerRow(self.database, new_id(), Drain(seconds=1))
        await row.register("by hand", CHAIN_ID, ENVIRONMENT, [ROLE], "0")
        return row.worker_id

    async def begin(self, job_id: UUID, worker_id: UUID, *, generation: int = 1, token: str | None = None) -> Begun:
        """Begin an attempt as if BullMQ had handed the delivery out under a token of its own."""
        delivery = Delivery(delivery_id(job_id, generation), token or new_id().hex, "kind", {}, 0, 3, 0, None, None, {})
        (begun,) = await begin(
            self.database,
            self.database,
            [delivery],
            worker_id=worker_id,
            attempts_max=SETTINGS.attempts_max,
            chain_id=CHAIN_ID,
            environment=ENVIRONMENT,
            kinds=["kind"],
        )
        return begun

    def publisher(self) -> Publisher:
        """A publisher that runs only when asked."""
        return Publisher(self.database, self.queue_of, CHAIN_ID, ENVIRONMENT, SETTINGS)

    async def state(self, job_id: UUID) -> str:
        record = await self.coordination.inspect(job_id)
        assert record is not None
        return record.state

    async def make_due(self) -> None:
        """Let the outbox be due now, whatever its clock says."""
        async with self.database.connection() as connection:
            await connection.execute("UPDATE coordination.outbox SET due_at = now() - interval '1 second'")


def new_job(key: str = "key", **request: object) -> NewJob:
    return NewJob("kind", ROLE, key, request or {"n": 1})


@pytest.fixture
async def plane(database: Database, redis_url: str) -> AsyncIterator[Plane]:
    """Coordination over a fresh database and an empty Redis."""
    async with open_redis(redis_url) as redis:

        @cache
        def queue_of(role: str) -> DeliveryQueue:
            return DeliveryQueue(redis, prefix="{tayho}", name=role, lock_seconds=SETTINGS.lock_seconds)

        yield Plane(database, queue_of, Coordination(database, queue_of, CHAIN_ID, ENVIRONMENT, SETTINGS))
