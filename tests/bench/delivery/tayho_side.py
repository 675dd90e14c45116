"""tayho's side: enqueue, work off with real worker processes, and the time from enqueue to start."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import datetime
from functools import partial
from typing import Any

import trio
from attrs import frozen

from storage.connection import Connection
from tayho.coordination.module import Coordination
from tests.bench.delivery.child import Child, child
from tests.bench.delivery.parts import TAYHO, Figures, Incomplete, Part
from tests.bench.delivery.plane import new_job, open_coordination
from tests.bench.delivery.services import TEMPLATE, Services, control
from tests.bench.delivery.sizes import Sizes

BATCH = 1_000
CALLERS = 16
CONCURRENCY = 256
CONCURRENCY_OF_PEERS = 16
# The end is read from the rows; looking for it seldom keeps the looking out of the figures.
LOOK_SECONDS = 0.25
SLOWEST_PER_SECOND = 50

_PROGRESS = """
SELECT
    count(*) FILTER (WHERE state = 'completed') AS completed,
    count(*) FILTER (WHERE ended_at IS NOT NULL AND state <> 'completed') AS astray,
    extract(epoch FROM max(ended_at) - $1)::float8 AS seconds
FROM coordination.jobs
"""
_STARTS = """
SELECT
    count(*) AS started,
    percentile_cont(ARRAY[0.5, 0.95, 0.99]) WITHIN GROUP (
        ORDER BY extract(epoch FROM attempts.started_at - jobs.created_at)::float8 * 1000
    ) AS milliseconds
FROM coordination.jobs AS jobs
JOIN coordination.attempts AS attempts ON attempts.job_id = jobs.job_id AND attempts.attempt_number = 1
WHERE jobs.idempotency_key LIKE 'paced-%'
"""


@frozen
class Burned:
    """Pre-seeded jobs, all worked off: how long it took and what it cost."""

    jobs: int
    seconds: float
    wal_bytes: int
    commits: int
    dead_tuples: int
    answers: Sequence[Mapping[str, Any]]

    def total(self, name: str) -> float:
        """The sum of one figure over the worker processes."""
        return sum(answer[name] for answer in self.answers)


def parts() -> list[Part]:
    """Every part of tayho's side."""
    return [
        Part(TAYHO, "enqueue", enqueue),
        Part(TAYHO, "1 process", partial(throughput, 1)),
        Part(TAYHO, "2 processes", partial(throughput, 2)),
        Part(TAYHO, "4 processes", partial(throughput, 4)),
        Part(TAYHO, f"1 process, concurrency {CONCURRENCY_OF_PEERS}", throughput_at_16),
        Part(TAYHO, "enqueue to start", starts),
    ]


async def enqueue(services: Services, sizes: Sizes) -> Figures:
    """Jobs recorded a second: in batches by one caller, and one by one by concurrent callers."""
    async with services.database(TEMPLATE) as url:
        await services.settle(url)
        before = await services.counters(url)
        batches_seconds = await seed(services, url, "batched", sizes.jobs)
        after = await services.counters(url)
        async with open_coordination(url, services.redis_url, concurrency=1, pool_size=CALLERS) as coordination:
            began = trio.current_time()
            await _enqueue_singly(coordination, sizes.single_enqueues)
            singles_seconds = trio.current_time() - began
    return {
        (TAYHO, "enqueue_per_second"): sizes.jobs / batches_seconds,
        (TAYHO, "enqueue_single_per_second"): sizes.single_enqueues / singles_seconds,
        (TAYHO, "enqueue_wal_bytes_per_job"): (after.wal_bytes - before.wal_bytes) / sizes.jobs,
    }


async def throughput(processes: int, services: Services, sizes: Sizes) -> Figures:
    """Jobs a second with so many worker processes; with one also what a job costs."""
    burned = await burn(services, sizes.jobs, processes, CONCURRENCY)
    figures = {
        (TAYHO, "jobs_per_second", str(processes)): burned.jobs / burned.seconds,
        (TAYHO, "jobs_completed", str(processes)): burned.jobs,
    }
    if processes > 1:
        return figures
    return {
        **figures,
        (TAYHO, "wal_bytes_per_job"): burned.wal_bytes / burned.jobs,
        (TAYHO, "commits_per_job"): burned.commits / burned.jobs,
        (TAYHO, "redis_round_trips_per_job"): burned.total("redis_round_trips") / burned.jobs,
        (TAYHO, "dead_tuples"): burned.dead_tuples,
        (TAYHO, "cpu_seconds_per_1000_jobs"): burned.total("cpu_seconds") / burned.jobs * 1_000,
    }


async def throughput_at_16(services: Services, sizes: Sizes) -> Figures:
    """Jobs a second of one process with as many handlers as the peers have."""
    burned = await burn(services, sizes.jobs, 1, CONCURRENCY_OF_PEERS)
    return {
        (TAYHO, "jobs_per_second_at_16"): burned.jobs / burned.seconds,
        (TAYHO, "jobs_completed", "at_16"): burned.jobs,
    }


async def starts(services: Services, sizes: Sizes) -> Figures:
    """Milliseconds from a job's row to its first attempt's, in PostgreSQL's clock, under a steady load."""
    paced = round(sizes.paced_per_second * sizes.paced_seconds)
    async with services.database(TEMPLATE) as url, at_work(services, url, 1, CONCURRENCY) as workers:
        async with open_coordination(url, services.redis_url, concurrency=1) as coordination, control(url) as watch:
            began = await _set_going(workers, watch)
            await _enqueue_paced(coordination, "warming", sizes.warming, sizes.paced_per_second)
            await _enqueue_paced(coordination, "paced", paced, sizes.paced_per_second)
            await _all_completed(watch, sizes.warming + paced, began, workers)
            row = await watch.fetchrow(_STARTS)
        await _stopped(workers)
    assert row is not None
    if row["started"] != paced:
        raise Incomplete(f"tayho: {row['started']} of {paced} paced jobs were started")
    p50, p95, p99 = row["milliseconds"]
    return {
        (TAYHO, "start_ms", "p50"): p50,
        (TAYHO, "start_ms", "p95"): p95,
        (TAYHO, "start_ms", "p99"): p99,
        (TAYHO, "jobs_completed", "paced"): row["started"],
    }


async def profile(services: Services, jobs: int) -> str:
    """The table of where one worker spends its time."""
    return str((await burn(services, jobs, 1, CONCURRENCY, profile=True)).answers[0]["profile"])


async def burn(services: Services, jobs: int, processes: int, concurrency: int, *, profile: bool = False) -> Burned:
    """Record the jobs, let real processes publish and work them off, and believe PostgreSQL about the end.

    Raises:
        Incomplete: some were not completed.
    """
    async with services.database(TEMPLATE) as url:
        await seed(services, url, "seeded", jobs)
        await services.settle(url)
        before = await services.counters(url)
        async with at_work(services, url, processes, concurrency, profile=profile) as workers:
            async with control(url) as watch:
                began = await _set_going(workers, watch)
                seconds, looks = await _all_completed(watch, jobs, began, workers)
            answers = await _stopped(workers)
        after = await services.counters(url)
        dead_tuples = await services.dead_tuples(url, "coordination")
        return Burned(
            jobs=jobs,
            seconds=seconds,
            wal_bytes=after.wal_bytes - before.wal_bytes,
            # Our own looks are commits too.
            commits=after.commits - before.commits - looks - 1,
            dead_tuples=dead_tuples,
            answers=answers,
        )


async def seed(services: Services, url: str, series: str, jobs: int) -> float:
    """Record so many jobs in batches; the seconds that it took."""
    async with open_coordination(url, services.redis_url, concurrency=1) as coordination:
        began = trio.current_time()
        for first in range(0, jobs, BATCH):
            numbers = range(first, min(first + BATCH, jobs))
            await coordination.enqueue_many([new_job(series, number) for number in numbers])
        return trio.current_time() - began


@asynccontextmanager
async def at_work(
    services: Services, url: str, processes: int, concurrency: int, *, profile: bool = False
) -> AsyncIterator[Sequence[Child]]:
    """So many worker processes, ready and waiting to be told to go."""
    settings = {
        "database_url": url,
        "redis_url": services.redis_url,
        "concurrency": concurrency,
        "profile": profile,
    }
    command = [sys.executable, "-m", "tests.bench.delivery.worker_process"]
    async with AsyncExitStack() as running:
        yield [
            await running.enter_async_context(child(f"tayho-{number}", command, settings, services.folder))
            for number in range(processes)
        ]


async def _set_going(workers: Sequence[Child], watch: Connection) -> datetime:
    """Tell all to go; the moment, in PostgreSQL's clock."""
    began: datetime = await watch.fetchval("SELECT clock_timestamp()")
    for worker in workers:
        await worker.go()
    return began


async def _all_completed(watch: Connection, jobs: int, began: datetime, workers: Sequence[Child]) -> tuple[float, int]:
    """Wait until PostgreSQL says that all are completed.

    Returns the seconds from `began` to the last end, and how often PostgreSQL was asked. Raises Incomplete.
    """
    looks, completed = 0, 0
    with trio.move_on_after(60 + jobs / SLOWEST_PER_SECOND):
        while True:
            row = await watch.fetchrow(_PROGRESS, began)
            assert row is not None
            looks, completed = looks + 1, row["completed"]
            if completed == jobs:
                return row["seconds"], looks
            if row["astray"]:
                raise Incomplete(f"tayho: {row['astray']} of {jobs} jobs ended otherwise than completed")
            for worker in workers:
                worker.check()
            await trio.sleep(LOOK_SECONDS)
    raise Incomplete(f"tayho: {completed} of {jobs} jobs were completed in time")


async def _stopped(workers: Sequence[Child]) -> Sequence[Mapping[str, Any]]:
    return [await worker.stop() for worker in workers]


async def _enqueue_singly(coordination: Coordination, jobs: int) -> None:
    numbers = iter(range(jobs))

    async def call() -> None:
        for number in numbers:
            await coordination.enqueue(new_job("single", number))

    async with trio.open_nursery() as callers:
        for _ in range(CALLERS):
            callers.start_soon(call)


async def _enqueue_paced(coordination: Coordination, series: str, jobs: int, per_second: int) -> None:
    """Enqueue at fixed times, whether or not the earlier calls are answered: a slow answer must not thin the load."""
    began = trio.current_time()
    async with trio.open_nursery() as calls:
        for number in range(jobs):
            await trio.sleep_until(began + number / per_second)
            calls.start_soon(coordination.enqueue, new_job(series, number))
