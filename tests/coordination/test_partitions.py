"""A server that keeps its connections and answers nothing: what a network that lost its way looks like (OPS-6)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import cache

import pytest
import trio
from attrs import frozen

from nursery.drain import Drain
from storage.database import Database
from storage.delivery import DeliveryQueue
from storage.redis_client import open_redis
from tayho.coordination.module import Coordination
from tayho.kernel.jobs import Attempt, Completed, Job, Outcome
from tests.coordination.conftest import CHAIN_ID, ENVIRONMENT, SETTINGS, Plane
from tests.coordination.test_worker import at_work
from tests.services.proxy import FaultProxy, fault_proxy
from tests.waiting import until

DRAIN_SECONDS = 0.5
# What the last word to PostgreSQL may take, and the return of the connections that got no answer.
LAST_WORD_SECONDS = 16


@frozen
class Far:
    """A plane whose PostgreSQL and Redis are behind proxies."""

    plane: Plane
    proxies: dict[str, FaultProxy]


@pytest.fixture
async def far(database_url: str, redis_url: str, bridge: None) -> AsyncIterator[Far]:
    async with (
        fault_proxy(database_url) as postgres,
        fault_proxy(redis_url) as redis_side,
        Database.open(postgres.url_for(database_url), pool_size=4, application_name="far") as database,
        open_redis(redis_side.url_for(redis_url), command_seconds=2) as redis,
    ):

        @cache
        def queue_of(role: str) -> DeliveryQueue:
            return DeliveryQueue(redis, prefix="{tayho}", name=role, lock_seconds=SETTINGS.lock_seconds)

        coordination = Coordination(database, queue_of, CHAIN_ID, ENVIRONMENT, SETTINGS)
        yield Far(Plane(database, queue_of, coordination), {"postgres": postgres, "redis": redis_side})
        for proxy in (postgres, redis_side):
            proxy.cut()


async def _complete(job: Job, attempt: Attempt) -> Outcome:
    await trio.lowlevel.checkpoint()
    return Completed()


@pytest.mark.parametrize("side", ["postgres", "redis"])
async def test_a_drain_ends_although_a_server_answers_nothing(far: Far, side: str) -> None:
    """Goal: SIGTERM ends a process whose network lost its way; nobody has to kill it. Method: a worker that has done a
    job; all answers stop; the drain is requested."""
    job_id = await far.plane.enqueue()

    async def completed() -> bool:
        return await far.plane.state(job_id) == "completed"

    async with at_work(far.plane, _complete, drain_seconds=DRAIN_SECONDS) as running:
        await until(completed, seconds=20, what="the job to complete")
        far.proxies[side].freeze()
        running.drain.request("SIGTERM")
        with trio.fail_after(DRAIN_SECONDS + LAST_WORD_SECONDS):
            await running.ended.wait()
        far.proxies[side].cut()


async def test_a_drain_ends_although_a_start_hears_nothing(far: Far) -> None:
    """Goal: the same, for a process that had only begun. Method: PostgreSQL is silent when the worker registers."""
    drain = Drain(seconds=DRAIN_SECONDS)
    far.proxies["postgres"].freeze()
    with trio.fail_after(DRAIN_SECONDS + LAST_WORD_SECONDS):
        async with trio.open_nursery() as tasks:
            tasks.start_soon(far.plane.coordination.work, {"kind": _complete}, drain, "worker", "0")
            drain.request("SIGTERM")
