"""A worker of chosen kinds at work, beside any number of others on the same queue."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import trio

from nursery.drain import Drain
from storage.database import Database
from tayho.coordination.module import Coordination
from tayho.coordination.types import Handler
from tests.coordination.conftest import CHAIN_ID, ENVIRONMENT, SETTINGS, Plane


@asynccontextmanager
async def worker_at_work(
    plane: Plane, url: str, handlers: Mapping[str, Handler], drain: Drain, *, publishes: bool = False
) -> AsyncIterator[None]:
    """A worker until the block ends, then its drain; with a publisher and a listener beside it if asked."""
    # With connections of its own, as in a process of its own: a worker keeps some for itself.
    async with Database.open(url, pool_size=6, application_name="worker") as database:
        coordination = Coordination(database, plane.queue_of, CHAIN_ID, ENVIRONMENT, SETTINGS)
        ended = trio.Event()

        async def work() -> None:
            await coordination.work(handlers, drain, "worker", "0")
            ended.set()

        async with trio.open_nursery() as tasks:
            if publishes:
                tasks.start_soon(coordination.publish, drain)
                tasks.start_soon(coordination.listen)
            tasks.start_soon(work)
            yield
            drain.request("the test is over")
            with trio.fail_after(drain.seconds + 10):
                await ended.wait()
            tasks.cancel_scope.cancel()
