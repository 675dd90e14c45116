"""What every delivery test needs: a Redis, a client, a queue, records, and a look behind the scenes."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from hashlib import sha1
from pathlib import Path
from typing import Any
from uuid import uuid4

import bullmq  # pyright: ignore[reportMissingTypeStubs]
from attrs import frozen

from nursery.asyncio_bridge import open_bridge
from storage.delivery import DeliveryQueue
from storage.records import Delivery, Record, delivery_id
from storage.redis_client import RedisServer, open_redis
from tests.storage.redis_process import RedisProcess, running_redis

PREFIX = "{test}"
QUEUE = "jobs"


@frozen
class Plane:
    """One queue on one Redis."""

    redis: RedisProcess
    server: RedisServer
    queue: DeliveryQueue

    async def raw(self, *command: str | int) -> Any:
        """One plain Redis command, as a person with redis-cli would give it."""
        return await self.server.ask_one(command)

    def key(self, name: str) -> str:
        return f"{PREFIX}:{QUEUE}:{name}"


@asynccontextmanager
async def open_plane(
    *, lock_seconds: float = 30, stalled_interval_seconds: float = 0.05, command_seconds: float = 5, **options: Any
) -> AsyncGenerator[Plane]:
    """A fresh Redis with one empty queue."""
    async with (
        running_redis() as redis,
        open_bridge(),
        open_redis(redis.url, command_seconds=command_seconds) as server,
    ):
        yield Plane(redis, server, queue_on(server, lock_seconds, stalled_interval_seconds, **options))


def queue_on(
    server: RedisServer,
    lock_seconds: float = 30,
    stalled_interval_seconds: float = 0.05,
    *,
    prefix: str = PREFIX,
    name: str = QUEUE,
    **options: Any,
) -> DeliveryQueue:
    return DeliveryQueue(
        server,
        prefix=prefix,
        name=name,
        lock_seconds=lock_seconds,
        stalled_interval_seconds=stalled_interval_seconds,
        **options,
    )


def a_record(
    data: Mapping[str, object] | None = None,
    *,
    name: str = "pay",
    priority: int = 100,
    attempts: int = 8,
    backoff_milliseconds: int = 1,
) -> Record:
    return Record(
        delivery_id=delivery_id(uuid4(), 1),
        name=name,
        data={} if data is None else data,
        priority=priority,
        attempts=attempts,
        backoff_milliseconds=backoff_milliseconds,
    )


async def a_delivery(queue: DeliveryQueue, record: Record | None = None) -> Delivery:
    """A record published and fetched."""
    record = a_record() if record is None else record
    await queue.publish_many([record])
    [delivery] = await queue.fetch(1)
    assert delivery.delivery_id == record.delivery_id
    return delivery


def script_digest(name: str) -> bytes:
    """The name under which Redis knows one of BullMQ's scripts, computed from its file: a needle for the proxy."""
    [path] = (Path(bullmq.__file__).parent / "commands").glob(f"{name}-*.lua")
    return sha1(path.read_bytes(), usedforsecurity=False).hexdigest().encode()
