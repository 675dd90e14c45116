"""tayho's side: jobs in, kept coming for the whole time, and what was sent and what was final by PostgreSQL's clock."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import partial
from itertools import count

import click
import trio
from attrs import define, field

from storage.connection import Connection
from storage.database import Database
from tayho.coordination.module import JobReader, enqueue_jobs
from tayho.coordination.types import NewJob
from tayho.kernel.address import Address
from tayho.protocol.counter import CounterRecord
from tests.bench.chain.parts import TAYHO, Figures, Part
from tests.bench.chain.processors import ProcessorUse
from tests.bench.chain.replicas import ENVIRONMENT, Replica, replicas
from tests.bench.chain.sizes import Sizes
from tests.bench.chain.world import CHAIN_ID, World, world
from tests.bench.delivery.parts import Incomplete
from tests.bench.delivery.services import TEMPLATE, Services, control

BATCH = 500
LOOK_SECONDS = 0.25
START_SECONDS = 60
END_SECONDS = 180
# The paced jobs that are not counted: connections open, statements are prepared.
WARMING = 20

_SENT = "SELECT coalesce(max(broadcast_id), 0) FROM transactions.broadcasts"
_OPEN = "SELECT count(*) FROM coordination.jobs WHERE ended_at IS NULL"
_RATES = """
WITH sends AS (
    SELECT min(answered_at) AS answered_at FROM transactions.broadcasts
    WHERE answered_at >= $1 AND answer IN ('accepted', 'already_known')
    GROUP BY tx_hash
),
span AS (SELECT min(answered_at) AS began, min(answered_at) + make_interval(secs => $2) AS ended FROM sends),
finals AS (
    SELECT ended_at FROM transactions.lineages, span
    WHERE state = 'mined' AND ended_at >= $1 AND ended_at <= span.ended
)
SELECT
    (SELECT count(*) FROM sends, span WHERE answered_at <= span.ended) / $2 AS sent,
    (SELECT count(*) / greatest(extract(epoch FROM (SELECT ended FROM span) - min(ended_at)), 0.001)::float8
     FROM finals) AS final
"""
_LATENCY = """
SELECT percentile_cont(ARRAY[0.5, 0.99]) WITHIN GROUP (
    ORDER BY extract(epoch FROM sends.answered_at - jobs.created_at)::float8 * 1000
) AS milliseconds
FROM coordination.jobs AS jobs
JOIN transactions.lineages AS lineages USING (job_id)
JOIN transactions.members AS members USING (lineage_id)
JOIN LATERAL (
    SELECT min(answered_at) AS answered_at FROM transactions.broadcasts AS broadcasts
    WHERE broadcasts.tx_hash = members.tx_hash
) AS sends ON true
WHERE jobs.idempotency_key LIKE 'paced-%'
"""
_ENDED = "SELECT count(*) FILTER (WHERE state = 'completed') AS completed, count(*) AS jobs FROM coordination.jobs"


def parts(sizes: Sizes) -> list[Part]:
    """Every part of tayho's side."""
    return [
        Part(TAYHO, f"{lanes} lanes, {count} replicas", partial(throughput, lanes, count))
        for count in sizes.replicas
        for lanes in sizes.lanes
    ]


@define
class Load:
    """Jobs of one part, as they are enqueued."""

    database: Database
    contract: Address
    enqueued: int = 0
    _numbers: count[int] = field(factory=count, init=False)

    async def add(self, series: str, jobs: int) -> None:
        """Record so many more."""
        kind = CounterRecord()
        request = {"contract": str(self.contract)}
        new = [NewJob(kind.name, kind.role, f"{series}-{next(self._numbers)}", request) for _ in range(jobs)]
        await enqueue_jobs(self.database, CHAIN_ID, ENVIRONMENT, new)
        self.enqueued += jobs

    async def paced(self, series: str, jobs: int, per_second: int) -> None:
        """At fixed times, whether or not the earlier ones are recorded."""
        began = trio.current_time()
        async with trio.open_nursery() as calls:
            for number in range(jobs):
                await trio.sleep_until(began + number / per_second)
                calls.start_soon(self.add, series, 1)


async def throughput(lanes: int, count: int, services: Services, sizes: Sizes) -> Figures:
    """Transactions a second sent and final, and what each costs.

    Raises:
        Incomplete: a job was not completed, or the chain has not exactly one record of each.
    """
    path = (TAYHO, f"lanes_{lanes}_replicas_{count}")
    async with services.database(TEMPLATE) as url:
        await services.settle(url)
        before = await services.counters(url)
        async with (
            world(services.folder, lanes) as chain,
            replicas(count, lanes, url, chain, services, sizes) as running,
        ):
            async with control(url) as watch, Database.open(url, pool_size=4, application_name="bench") as database:
                load = Load(database, chain.contract)
                figures = await _measured(path, load, watch, running, chain, sizes)
            answers = [await replica.stop() for replica in running]
        after = await services.counters(url)
    for answer in answers:
        if answer["profile"]:
            click.echo(answer["profile"], err=True)
    return {
        **figures,
        (*path, "rpc_round_trips"): sum(answer["rpc_round_trips"] for answer in answers) / load.enqueued,
        (*path, "commits"): (after.commits - before.commits) / load.enqueued,
        (*path, "cpu_milliseconds"): 1000 * sum(answer["cpu_seconds"] for answer in answers) / load.enqueued,
    }


async def _measured(
    path: tuple[str, ...], load: Load, watch: Connection, running: Sequence[Replica], chain: World, sizes: Sizes
) -> Figures:
    jobs = JobReader(load.database, CHAIN_ID, ENVIRONMENT)
    with trio.fail_after(START_SECONDS):
        while len(await jobs.live_workers()) < len(running):
            await _pause(running)
    await load.paced("warming", WARMING, sizes.paced_per_second)
    await load.paced("paced", round(sizes.paced_per_second * sizes.paced_seconds), sizes.paced_per_second)
    await _all_ended(watch, running)
    began: datetime = await watch.fetchval("SELECT clock_timestamp()")
    replicas_at_work = [replica.process.pid for replica in running]
    used = ProcessorUse.now(replicas_at_work)
    await _keep_busy(load, watch, running, sizes)
    cores = ProcessorUse.now(replicas_at_work).cores_since(used)
    await _all_ended(watch, running)
    row = await watch.fetchrow(_ENDED)
    mined = await chain.records()
    assert row is not None
    if not row["completed"] == row["jobs"] == mined == load.enqueued:
        raise Incomplete(f"tayho: of {load.enqueued} jobs {row['completed']} completed, and {mined} records mined")
    rates = await watch.fetchrow(_RATES, began, float(sizes.seconds))
    latency = await watch.fetchval(_LATENCY)
    assert rates is not None
    return {
        (*path, "sent"): float(rates["sent"]),
        (*path, "final"): float(rates["final"]),
        (*path, "submit_to_broadcast_ms", "p50"): latency[0],
        (*path, "submit_to_broadcast_ms", "p99"): latency[1],
        **{(*path, "cores", program): taken for program, taken in cores.items()},
    }


async def _keep_busy(load: Load, watch: Connection, running: Sequence[Replica], sizes: Sizes) -> None:
    """Keep jobs waiting until the time is over, counted from the first send of all."""
    idle_sends: int = await watch.fetchval(_SENT)
    already = load.enqueued
    ended = trio.current_time() + sizes.seconds + LOOK_SECONDS
    is_under_way = False
    while trio.current_time() < ended:
        sent = await watch.fetchval(_SENT) - idle_sends
        if sent and not is_under_way:
            is_under_way, ended = True, trio.current_time() + sizes.seconds
        while load.enqueued - already - sent < sizes.ahead:
            await load.add("load", min(BATCH, sizes.ahead))
        await _pause(running)


async def _all_ended(watch: Connection, running: Sequence[Replica]) -> None:
    with trio.move_on_after(END_SECONDS):
        while await watch.fetchval(_OPEN):
            await _pause(running)
        return
    raise Incomplete(f"tayho: {await watch.fetchval(_OPEN)} jobs did not end")


async def _pause(running: Sequence[Replica]) -> None:
    for replica in running:
        replica.check()
    await trio.sleep(LOOK_SECONDS)
