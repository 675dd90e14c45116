"""The demo from start to report."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Callable
from uuid import UUID

import trio
from attrs import frozen

from nursery.asyncio_bridge import open_bridge
from rpc.endpoint import Endpoint
from storage.database import Database
from storage.migrations import migrate
from tayho.coordination.module import JobReader, enqueue_jobs
from tayho.coordination.types import NewJob
from tayho.demo.counting import count_effects
from tayho.demo.fleet import Fleet, fleet
from tayho.demo.types import DemoPlan, DemoReport
from tayho.kernel.address import Address
from tayho.local.anvil import Chain
from tayho.local.development import PUBLIC_ACCOUNTS, deploy
from tayho.local.stack import LocalStack, local_stack, throw_away_folder
from tayho.protocol import artifacts
from tayho.protocol.counter import CounterRecord

CHAIN_ID = 31337
ENVIRONMENT = "demo"
BLOCK_SECONDS = 1
CONFIRMATIONS = 2
LOOK_SECONDS = 0.25
START_SECONDS = 60


class DemoStuck(Exception):
    """The jobs did not all end in time."""


@frozen
class Progress:
    """One look at the running demo, for the live table."""

    seconds: float
    states: dict[str, int]
    workers: tuple[tuple[str, int], ...]
    killed: tuple[str, ...]
    contract: Address


async def run_demo(plan: DemoPlan, show: Callable[[Progress], None]) -> DemoReport:
    """Bring the stack up, run the jobs on real replicas, kill one if asked, count on the chain.

    Raises ToolMissing, LocalProcessFailed, ReplicaDied, DemoStuck.
    """
    async with open_bridge(), local_stack(chain=Chain(chain_id=CHAIN_ID, block_seconds=BLOCK_SECONDS)) as stack:
        await migrate(stack.database_url)
        rpc_url = str(stack.rpc_url)
        async with (
            Database.open(stack.database_url, pool_size=4, application_name="tayho demo") as database,
            Endpoint.open(rpc_url, chain_id=CHAIN_ID) as node,
        ):
            contract = await deploy(node, artifacts.load("Counter").bytecode)
            jobs = JobReader(database, CHAIN_ID, ENVIRONMENT)
            with throw_away_folder() as folder:
                async with fleet(folder, _replica_environment(stack)) as replicas:
                    return await _measured(plan, database, jobs, node, contract, replicas, show)


async def _measured(
    plan: DemoPlan,
    database: Database,
    jobs: JobReader,
    node: Endpoint,
    contract: Address,
    replicas: Fleet,
    show: Callable[[Progress], None],
) -> DemoReport:
    await replicas.start(CounterRecord.role, plan.replicas)
    with trio.fail_after(START_SECONDS):
        await _all_alive(jobs, replicas, plan.replicas)
    began_at = time.monotonic()
    job_ids = await _enqueue(database, contract, plan.jobs)
    await _watch(plan, jobs, replicas, contract, began_at, show)
    seconds = time.monotonic() - began_at
    states = await jobs.count_by_state()
    effects = await count_effects(node, contract, job_ids)
    exit_codes = await replicas.stop()
    return DemoReport(
        jobs=plan.jobs,
        completed=states.get("completed", 0),
        effects=effects.effects,
        duplicates=effects.duplicates,
        lost=effects.lost,
        killed=sum(replica.was_killed for replica in replicas.replicas),
        chain_seconds=effects.chain_seconds,
        jobs_per_second=round(plan.jobs / seconds, 2),
        exit_codes=exit_codes,
    )


async def _all_alive(jobs: JobReader, replicas: Fleet, count: int) -> None:
    while len(await jobs.live_workers()) < count:
        replicas.check()
        await trio.sleep(LOOK_SECONDS)


async def _enqueue(database: Database, contract: Address, count: int) -> list[UUID]:
    kind = CounterRecord()
    answers = await enqueue_jobs(
        database,
        CHAIN_ID,
        ENVIRONMENT,
        [NewJob(kind.name, kind.role, f"demo-{number}", {"contract": str(contract)}) for number in range(count)],
    )
    return [answer.job_id for answer in answers]


async def _watch(
    plan: DemoPlan,
    jobs: JobReader,
    replicas: Fleet,
    contract: Address,
    began_at: float,
    show: Callable[[Progress], None],
) -> None:
    """Look until every job has ended; kill the busiest replica while transactions are in flight."""
    must_kill = plan.kill
    while True:
        replicas.check()
        states = await jobs.count_by_state()
        workers = await jobs.live_workers()
        seconds = time.monotonic() - began_at
        killed = tuple(replica.instance_id for replica in replicas.replicas if replica.was_killed)
        running = tuple((worker.instance_id, worker.running) for worker in workers)
        show(Progress(seconds, states, running, killed, contract))
        if must_kill and states.get("confirming", 0) and any(count for _, count in running):
            busiest = max(running, key=lambda one: one[1])[0]
            next(replica for replica in replicas.living if replica.instance_id == busiest).kill()
            must_kill = False
        if states.get("completed", 0) + states.get("dead", 0) + states.get("not_actionable", 0) >= plan.jobs:
            return
        if seconds > plan.deadline_seconds:
            raise DemoStuck(f"after {seconds:.0f} s the jobs stand at {states}")
        await trio.sleep(LOOK_SECONDS)


def _replica_environment(stack: LocalStack) -> dict[str, str]:
    return {
        "DATABASE_URL": stack.database_url,
        "REDIS_URL": stack.redis_url,
        "RPC_URL": str(stack.rpc_url),
        "CHAIN_ID": str(CHAIN_ID),
        "ENVIRONMENT": ENVIRONMENT,
        "SIGNER_KEYS": json.dumps(dict(PUBLIC_ACCOUNTS)),
        "TX_JOURNAL_KEYS": json.dumps({"demo": f"0x{secrets.token_hex(32)}"}),
        "TX_JOURNAL_ACTIVE_KEY_ID": "demo",
        "TX_MAX_FEE_PER_GAS_WEI": str(100 * 10**9),
        "TX_CONFIRMATIONS": str(CONFIRMATIONS),
        "TX_RECONCILE_SECONDS": "1",
        "QUEUE_LOCK_SECONDS": "5",
        "QUEUE_RECONCILE_SECONDS": "5",
        "HTTP_BIND": "127.0.0.1:0",
        "DRAIN_SECONDS": "20",
        "LOG_FORMAT": "json",
    }
