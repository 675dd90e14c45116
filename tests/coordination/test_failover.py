"""A failover that loses what Redis had not replicated, healed from PostgreSQL."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

import pytest

from storage.database import Database
from storage.delivery import DeliveryQueue
from storage.errors import StorageError
from storage.redis_client import open_redis
from tayho.coordination.module import Coordination
from tests.coordination.conftest import CHAIN_ID, ENVIRONMENT, SETTINGS, Plane
from tests.storage.redis_sentinel import running_sentinel
from tests.waiting import until

pytestmark = pytest.mark.services


async def test_what_a_failover_lost_is_delivered_again(database: Database) -> None:
    """Goal: DLV-4 over Sentinel: PostgreSQL owns correctness, whatever Redis forgets.

    Method: publish two jobs, of which the replica hears the first only; kill the master; on the new one the delivery
    check adds the lost record again under its id, and leaves the other alone.
    """
    async with running_sentinel() as service, open_redis(service.url, command_seconds=2) as redis:

        @cache
        def queue_of(role: str) -> DeliveryQueue:
            return DeliveryQueue(redis, prefix="{tayho}", name=role, lock_seconds=SETTINGS.lock_seconds)

        plane = Plane(database, queue_of, Coordination(database, queue_of, CHAIN_ID, ENVIRONMENT, SETTINGS))
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


def _waiting(counts: Mapping[str, int]) -> int:
    return counts["waiting"] + counts["prioritized"]
