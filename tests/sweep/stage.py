"""Where a sweep plays: coordination through two proxies, and the same database and queue as they are behind them."""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from functools import cache
from typing import Any, Final

import pytest
from attrs import frozen

from nursery.asyncio_bridge import open_bridge
from storage import unanswered
from storage.bullmq_package import load_script, script_files
from storage.database import Database
from storage.delivery import DeliveryQueue
from storage.redis_client import RedisServer, open_redis
from tayho.coordination import module, outbox, retention, running, worker
from tayho.coordination.module import Coordination
from tayho.coordination.types import WorkerSettings
from tests.services.proxy import FaultProxy, fault_proxy

CHAIN_ID: Final = 31337
ENVIRONMENT: Final = "sweep"
# Where nothing is new: what retention is at.
PAST: Final = "past"
ROLE: Final = "automation"
SETTINGS: Final = WorkerSettings(
    roles=(ROLE,), concurrency=8, lock_seconds=1, reconcile_seconds=1, attempts_max=4, poll_milliseconds=50
)
# A holder that vanishes has its lock for so long.
VANISHING_LOCK_SECONDS: Final = 0.05
# Waits that a person would not notice, and a sweep of a hundred runs would: module, constant, value.
_HURRIED: Final[tuple[tuple[Any, str, Any], ...]] = (
    (module, "HEARTBEAT_SECONDS", 0.1),
    (module, "LISTEN_AGAIN_SECONDS", 0.1),
    (outbox, "LEASE_SECONDS", 1),
    (outbox, "BACKOFF_MILLISECONDS", 10),
    (retention, "WALK_SECONDS", 0),
    (unanswered, "LOOK_AGAIN_SECONDS", 0.2),
    (worker, "WAIT_SECONDS", 0.3),
    (worker, "TROUBLE_SECONDS", 0.1),
    (worker, "PUT_BACK_SECONDS", dict.fromkeys(worker.PUT_BACK_SECONDS, 0.1)),
    (running, "OUTAGE_DELAY_SECONDS", 0),
)


@frozen
class Plane:
    """Coordination over one way to the database and the queue."""

    database: Database
    redis: RedisServer
    queue: DeliveryQueue
    coordination: Coordination


@frozen
class Stage:
    """One play: the way that may be broken, and the way behind the scenes that never is."""

    front: Plane
    back: Plane
    # The holder that will vanish has the queue under a lock of its own length.
    vanishing: DeliveryQueue
    postgres: FaultProxy
    redis: FaultProxy


@asynccontextmanager
async def open_stage(database_url: str, redis_url: str) -> AsyncGenerator[Stage]:
    """A stage on an empty, migrated database and an empty Redis."""
    with pytest.MonkeyPatch.context() as patch:
        for where, name, value in _HURRIED:
            patch.setattr(where, name, value)
        async with (
            open_bridge(),
            fault_proxy(database_url) as postgres,
            fault_proxy(redis_url) as redis,
            _open_plane(database_url, redis_url) as back,
            _open_plane(postgres.url_for(database_url), redis.url_for(redis_url)) as front,
        ):
            vanishing = _queue(back.redis, VANISHING_LOCK_SECONDS, stalled_interval_seconds=0.01)
            yield Stage(front, back, vanishing, postgres, redis)


async def load_scripts(redis: RedisServer, names: frozenset[str]) -> None:
    """Let Redis know these scripts and no others, so that a first call of one of them is executed."""
    await redis.ask_one(("SCRIPT", "FLUSH"))
    for name in sorted(names & script_files.keys()):
        await redis.ask_one(("SCRIPT", "LOAD", load_script(script_files[name])))


@asynccontextmanager
async def _open_plane(database_url: str, redis_url: str) -> AsyncGenerator[Plane]:
    async with (
        Database.open(database_url, pool_size=6, application_name="sweep") as database,
        open_redis(redis_url, command_seconds=2) as redis,
    ):
        queue = _queue(redis, SETTINGS.lock_seconds)
        queue_of: Callable[[str], DeliveryQueue] = cache(lambda _role: queue)
        yield Plane(database, redis, queue, Coordination(database, queue_of, CHAIN_ID, ENVIRONMENT, SETTINGS))


def _queue(
    redis: RedisServer, lock_seconds: float, stalled_interval_seconds: float = SETTINGS.lock_seconds / 2
) -> DeliveryQueue:
    return DeliveryQueue(
        redis,
        prefix="{sweep}",
        name=ROLE,
        lock_seconds=lock_seconds,
        stalled_interval_seconds=stalled_interval_seconds,
    )
