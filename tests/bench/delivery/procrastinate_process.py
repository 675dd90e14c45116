"""procrastinate's side: a psycopg 3 async worker over a task that does nothing."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from procrastinate import App, PsycopgConnector
from procrastinate.jobs import Status

from tests.bench.delivery.peer_protocol import Burn, Settings, measured

BATCH = 1_000


@asynccontextmanager
async def prepared(settings: Settings) -> AsyncIterator[Burn]:
    """The schema is made and the jobs are deferred."""
    # Its default pool of four connections: larger ones were slower.
    connector = PsycopgConnector(conninfo=settings["database_url"])
    app = App(connector=connector)

    @app.task(name="no_op")
    async def no_op(n: int) -> None:
        del n

    async def burn() -> int:
        # Without `wait` the worker ends by itself when the queue is empty.
        await app.run_worker_async(concurrency=settings["concurrency"], wait=False, install_signal_handlers=False)
        counts = list(await app.job_manager.list_queues_async())
        return sum(queue[Status.SUCCEEDED.value] for queue in counts)

    async with app.open_async():
        await app.schema_manager.apply_schema_async()
        for first in range(0, settings["jobs"], BATCH):
            numbers = range(first, min(first + BATCH, settings["jobs"]))
            await no_op.batch_defer_async(*({"n": number} for number in numbers))
        yield burn


if __name__ == "__main__":
    measured(prepared)
