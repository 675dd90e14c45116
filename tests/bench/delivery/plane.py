"""Coordination as the benchmark builds it, the same in the worker processes and in their parent."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache

import trio

from storage.database import Database
from storage.delivery import DeliveryQueue
from storage.redis_client import open_redis
from tayho.coordination.module import Coordination
from tayho.coordination.types import NewJob, WorkerSettings
from tayho.kernel.jobs import Attempt, Completed, Job, Outcome

CHAIN_ID = 31337
ENVIRONMENT = "bench"
ROLE = "automation"
KIND = "bench.no_op"
PREFIX = "{tayho}"
# As the configuration has them by default.
LOCK_SECONDS = 30
RECONCILE_SECONDS = 60
ATTEMPTS_MAX = 8
POLL_MILLISECONDS = 250
POOL_SIZE = 10


@asynccontextmanager
async def open_coordination(
    database_url: str, redis_url: str, *, concurrency: int, pool_size: int = POOL_SIZE
) -> AsyncIterator[Coordination]:
    """Coordination on its own connections; the bridge must be open."""
    settings = WorkerSettings(
        roles=(ROLE,),
        concurrency=concurrency,
        lock_seconds=LOCK_SECONDS,
        reconcile_seconds=RECONCILE_SECONDS,
        attempts_max=ATTEMPTS_MAX,
        poll_milliseconds=POLL_MILLISECONDS,
    )
    async with (
        Database.open(database_url, pool_size=pool_size, application_name="bench") as database,
        open_redis(redis_url) as redis,
    ):

        @cache
        def queue_of(role: str) -> DeliveryQueue:
            return DeliveryQueue(redis, prefix=PREFIX, name=f"{role}-{ENVIRONMENT}", lock_seconds=LOCK_SECONDS)

        yield Coordination(database, queue_of, CHAIN_ID, ENVIRONMENT, settings)


def new_job(series: str, number: int) -> NewJob:
    """A job with a small request, as most have."""
    return NewJob(KIND, ROLE, f"{series}-{number}", {"n": number})


async def no_op(job: Job, attempt: Attempt) -> Outcome:
    """The work of every job: none."""
    del job, attempt
    await trio.lowlevel.checkpoint()
    return Completed()
