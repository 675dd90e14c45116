"""Lineages are out and no block comes; all replicas die, the node forgets its pool; new ones start, and blocks come."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, TypeAlias
from uuid import UUID

import trio
from attrs import frozen

from nursery.asyncio_bridge import open_bridge
from rpc.reads import Call
from storage.connection import Connection
from storage.database import Database
from tayho.coordination.module import enqueue_jobs
from tayho.coordination.types import NewJob
from tayho.demo.fleet import Fleet, fleet
from tests.bench.chain.world import CHAIN_ID, World, world
from tests.bench.delivery.parts import Incomplete
from tests.bench.delivery.services import TEMPLATE, Services, control, open_services
from tests.invariants import effects_of

ENVIRONMENT = "recovery"
CONFIRMATIONS = 3
PREPARE_SECONDS = 300
END_SECONDS = 300
LOOK_SECONDS = 0.1

_OUT = "SELECT count(*) FROM transactions.lineages WHERE state = 'broadcast'"
_OPEN = "SELECT count(*) FROM coordination.jobs WHERE ended_at IS NULL"
_FIGURES = """
WITH sends AS (
    SELECT tx_hash, min(answered_at) AS answered_at FROM transactions.broadcasts
    WHERE answered_at > $1 AND answer IN ('accepted', 'already_known') GROUP BY tx_hash
)
SELECT
    (SELECT extract(epoch FROM min(started_at) - $1)::float8 FROM coordination.workers WHERE started_at > $1)
        AS first_worker_seconds,
    (SELECT extract(epoch FROM min(answered_at) - $1)::float8 FROM sends) AS first_rebroadcast_seconds,
    (SELECT extract(epoch FROM max(answered_at) - $1)::float8 FROM sends) AS last_rebroadcast_seconds,
    (SELECT count(*) FROM sends) AS rebroadcast,
    (SELECT extract(epoch FROM max(ended_at) - $1)::float8 FROM transactions.lineages) AS all_final_seconds,
    (SELECT count(*) FROM coordination.jobs WHERE state = 'completed') AS completed
"""

Figures: TypeAlias = Mapping[str, float | int]


@frozen
class Sizes:
    lineages: int
    lanes: int
    replicas: int
    reconcile_seconds: int


async def run(sizes: Sizes, told: Callable[[str], None]) -> Figures:
    """Raises Incomplete: a job was lost, doubled or not completed."""
    async with open_bridge(), open_services() as services, services.database(TEMPLATE) as url:
        return await _recover(services, url, sizes, told)


async def _recover(services: Services, url: str, sizes: Sizes, told: Callable[[str], None]) -> Figures:
    async with (
        world(services.folder, sizes.lanes) as chain,
        fleet(services.folder, _variables(url, services, chain, sizes)) as replicas,
        Database.open(url, pool_size=2, application_name="bench") as database,
        control(url) as watch,
    ):
        await _tell(chain, "evm_setIntervalMining", 0)
        await replicas.start("automation", sizes.replicas)
        job_ids = await _enqueue(database, chain, sizes)
        await _until_counted(watch, replicas, _OUT, sizes.lineages, PREPARE_SECONDS)
        told(f"{sizes.lineages} lineages are out, and no block comes")
        for replica in replicas.living:
            replica.kill()
            await replica.process.wait()
        await _tell(chain, "anvil_dropAllTransactions")
        began: datetime = await watch.fetchval("SELECT clock_timestamp()")
        await replicas.start("automation", sizes.replicas)
        await _tell(chain, "evm_setIntervalMining", 1)
        await _until_counted(watch, replicas, _OPEN, 0, END_SECONDS)
        return await _figures(watch, chain, began, sizes, job_ids)


def _variables(url: str, services: Services, chain: World, sizes: Sizes) -> dict[str, str]:
    return {
        "DATABASE_URL": url,
        "REDIS_URL": services.redis_url,
        "RPC_URL": chain.url,
        "CHAIN_ID": str(CHAIN_ID),
        "ENVIRONMENT": ENVIRONMENT,
        "SIGNER_KEYS": json.dumps([signer.key for signer in chain.signers]),
        "SIGNER_LANE_DEPTH": str(-(-sizes.lineages // sizes.lanes) + 4),
        "TX_JOURNAL_KEYS": json.dumps({"bench": f"0x{'5a' * 32}"}),
        "TX_JOURNAL_ACTIVE_KEY_ID": "bench",
        "TX_MAX_FEE_PER_GAS_WEI": str(100 * 10**9),
        "TX_CONFIRMATIONS": str(CONFIRMATIONS),
        "TX_RECONCILE_SECONDS": str(sizes.reconcile_seconds),
        "QUEUE_CONCURRENCY": "64",
        "HTTP_BIND": "127.0.0.1:0",
        "LOG_FORMAT": "json",
    }


async def _enqueue(database: Database, chain: World, sizes: Sizes) -> Sequence[UUID]:
    request = {"contract": str(chain.contract)}
    jobs = [NewJob("counter.record", "automation", f"key-{number}", dict(request)) for number in range(sizes.lineages)]
    return [answer.job_id for answer in await enqueue_jobs(database, CHAIN_ID, ENVIRONMENT, jobs)]


async def _until_counted(watch: Connection, replicas: Fleet, sql: str, wanted: int, seconds: float) -> None:
    with trio.move_on_after(seconds):
        while await watch.fetchval(sql) != wanted:
            replicas.check()
            await trio.sleep(LOOK_SECONDS)
        return
    raise Incomplete(f"after {seconds:g} s {await watch.fetchval(sql)}, wanted {wanted}: {sql}")


async def _figures(watch: Connection, chain: World, began: datetime, sizes: Sizes, job_ids: Sequence[UUID]) -> Figures:
    row = await watch.fetchrow(_FIGURES, began)
    assert row is not None
    effects = await effects_of(chain.node, chain.contract, job_ids)
    duplicates = sum(count - 1 for count in effects.values() if count > 1)
    lost = sum(count == 0 for count in effects.values())
    if duplicates or lost or row["completed"] != sizes.lineages:
        raise Incomplete(f"{duplicates} doubled, {lost} lost, {row['completed']} completed of {sizes.lineages}")
    seconds = {name: round(value, 3) if isinstance(value, float) else value for name, value in row.items()}
    return {
        "lineages": sizes.lineages,
        "lanes": sizes.lanes,
        "replicas": sizes.replicas,
        "reconcile_seconds": sizes.reconcile_seconds,
        **seconds,
        "duplicates": duplicates,
        "lost": lost,
    }


async def _tell(chain: World, method: str, *params: object) -> None:
    order: Call[Any] = Call(method, params, lambda answer: answer, is_write=True)
    await chain.node.ask(order)
