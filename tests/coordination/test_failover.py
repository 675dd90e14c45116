"""Workers and publishers while Redis fails over or moves a slot: what it loses is healed from PostgreSQL."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from functools import cache
from uuid import UUID

import pytest
import trio

from storage.database import Database
from storage.delivery import DeliveryQueue
from storage.errors import StorageError
from storage.redis_client import open_redis
from tayho.coordination.module import Coordination
from tayho.kernel.jobs import Attempt, Completed, Job, Outcome
from tests.coordination.conftest import CHAIN_ID, ENVIRONMENT, SETTINGS, Plane
from tests.coordination.test_worker import at_work
from tests.storage.redis_cluster import running_cluster
from tests.storage.redis_sentinel import running_sentinel
from tests.waiting import until

pytestmark = pytest.mark.services

PREFIX = "{tayho}"
JOBS = 40


@asynccontextmanager
async def _plane(database: Database, url: str) -> AsyncGenerator[Plane]:
    """A coordination over Redis at this URL."""
    async with open_redis(url, command_seconds=2) as redis:

        @cache
        def queue_of(role: str) -> DeliveryQueue:
            return DeliveryQueue(redis, prefix=PREFIX, name=role, lock_seconds=SETTINGS.lock_seconds)

        yield Plane(database, queue_of, Coordination(database, queue_of, CHAIN_ID, ENVIRONMENT, SETTINGS))


async def test_what_a_failover_lost_is_delivered_again(database: Database) -> None:
    """Goal: DLV-4 over Sentinel: PostgreSQL owns correctness, whatever Redis forgets.

    Method: publish two jobs, of which the replica hears the first only; kill the master; on the new one the delivery
    check adds the lost record again under its id, and leaves the other alone.
    """
    async with running_sentinel() as service, _plane(database, service.url) as plane:
        publisher = plane.publisher()
        kept = await plane.enqueue("kept")
        await publisher.publish_due()
        await service.replicated()
        # It keeps what it has, hears no more, and is as fit to be promoted as before.
        await service.second.ask("REPLICAOF", "127.0.0.1", service.dead_port)
        lost = await plane.enqueue("lost")
        await publisher.publish_due()
        assert _waiting(await plane.queue.counts()) == 2
        await service.first.kill()

        async def one_is_left() -> bool:
            try:
                return _waiting(await plane.queue.counts()) == 1
            except StorageError:
                return False

        await until(one_is_left, seconds=20, what="the replica to be the master")
        await plane.make_due()
        await publisher.publish_due()
        deliveries = await plane.queue.fetch(5)
        assert sorted(each.delivery_id for each in deliveries) == sorted(f"{job_id}-g1" for job_id in (kept, lost))


async def test_a_master_killed_under_work_stops_no_job(database: Database) -> None:
    """Goal: workers resume by themselves. Method: kill the master after the first completions; every job is completed,
    and no handler is given a job that was."""
    async with running_sentinel() as service, _plane(database, service.url) as plane:
        await _worked_off(plane, service.first.kill)
        assert await service.second_is_master()


async def test_a_slot_moved_under_work_stops_no_job(database: Database) -> None:
    """Goal: a reshard is an outage of a moment. Method: move the slot after the first completions; as before."""
    async with running_cluster() as cluster, _plane(database, cluster.url) as plane:
        source = cluster.owner_of(PREFIX)

        async def move() -> None:
            await cluster.move(PREFIX, source, (source + 1) % len(cluster.servers))

        await _worked_off(plane, move)


async def _worked_off(plane: Plane, disturb: Callable[[], Awaitable[None]]) -> None:
    """Let a worker do many jobs, one slow one among them, and disturb Redis in the middle."""
    disturbed = trio.Event()
    began_completed: list[UUID] = []

    async def handle(job: Job, attempt: Attempt) -> Outcome:
        if await plane.state(job.job_id) == "completed":
            began_completed.append(job.job_id)
        if job.idempotency_key == "slow":
            await disturbed.wait()
        return Completed()

    await plane.enqueue("slow")
    for number in range(1, JOBS):
        await plane.enqueue(f"key-{number}")
    async with at_work(plane, handle):

        async def completed(count: int) -> bool:
            return (await plane.coordination.count_by_state()).get("completed", 0) >= count

        await until(lambda: completed(5), seconds=15, what="the first completions")
        await disturb()
        disturbed.set()
        await until(lambda: completed(JOBS), seconds=40, what="all completions")
    assert not began_completed


def _waiting(counts: Mapping[str, int]) -> int:
    return counts["waiting"] + counts["prioritized"]
