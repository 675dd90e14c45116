"""BullMQ's side in Python: its own Worker, with its own loop, over a processor that does nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from bullmq import Job, Queue, Worker  # pyright: ignore[reportMissingTypeStubs]
from redis.asyncio import Redis

from tests.bench.delivery.peer_protocol import Burn, Settings, measured

BATCH = 1_000
NAME = "bench"
# Above the ten seconds for which its worker blocks: redis-py's default of five would end every longer wait.
SOCKET_SECONDS = 30


@asynccontextmanager
async def prepared(settings: Settings) -> AsyncIterator[Burn]:
    """The jobs are added."""
    # A client with a pool: the package's own connection carries one command at a time, and is slower for it.
    redis = Redis.from_url(settings["redis_url"], decode_responses=True, socket_timeout=SOCKET_SECONDS)
    queue = Queue(NAME, {"connection": redis})
    jobs = [{"name": "no_op", "data": {"n": number}} for number in range(settings["jobs"])]
    for first in range(0, len(jobs), BATCH):
        await queue.addBulk(jobs[first : first + BATCH])

    async def burn() -> int:
        remaining = len(jobs)
        all_done = asyncio.Event()

        async def no_op(_job: Job, _token: str) -> None:
            return None

        def completed(*_: object) -> None:
            nonlocal remaining
            remaining -= 1
            if remaining == 0:
                all_done.set()

        worker = Worker(NAME, no_op, {"connection": redis, "concurrency": settings["concurrency"], "autorun": False})
        worker.on("completed", completed)
        running = asyncio.create_task(worker.run())
        await all_done.wait()
        running.cancel()
        return await queue.getCompletedCount()

    yield burn
    await redis.aclose()


if __name__ == "__main__":
    measured(prepared)
