"""One database, one Redis, one chain and real processes of this very program, some of them about to die."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast
from uuid import UUID

import trio
from attrs import define

from rpc import methods
from rpc.endpoint import Endpoint
from rpc.quantities import hash32
from rpc.reads import Call
from storage.database import Database
from storage.delivery import DeliveryQueue
from storage.records import Record, delivery_id
from storage.redis_client import RedisServer, open_redis
from tayho.coordination.module import JobReader, enqueue_jobs
from tayho.coordination.types import JobRecord, NewJob
from tayho.demo.fleet import Fleet, Replica, fleet
from tayho.faults import CRASH_AT
from tayho.kernel.address import Address
from tayho.local.development import DEPLOYER, PUBLIC_ACCOUNTS
from tayho.protocol import abi, artifacts
from tayho.resources import queue_name
from tests.invariants import TERMINAL, check_invariants, effects_of
from tests.services.ballast import past_triggers
from tests.services.chain import CHAIN_ID, LocalChain
from tests.waiting import until

ENVIRONMENT = "crash"
LOCK_SECONDS = 2
RECONCILE_SECONDS = 1
# The cursor stands right before the first job: in the eyes of the walk all of them are ids from the future.
GROW_OLD = f"""
UPDATE coordination.jobs SET created_at = created_at - interval '40 days', ended_at = ended_at - interval '40 days';
UPDATE coordination.workers SET heartbeat_at = heartbeat_at - interval '40 days';
INSERT INTO coordination.retention (chain_id, environment, swept_to)
SELECT {CHAIN_ID}, '{ENVIRONMENT}', (left(job_id::text, 13) || '-7000-8000-000000000000')::uuid
FROM coordination.jobs ORDER BY job_id LIMIT 1
ON CONFLICT (chain_id, environment) DO UPDATE SET swept_to = excluded.swept_to
"""


@define
class World:
    """What a crash test acts on."""

    database: Database
    node: Endpoint
    contract: Address
    replicas: Fleet
    jobs: JobReader
    redis_url: str

    async def start(
        self, role: str = "automation", *, crash_at: str | None = None, plug_in: str | None = None, **variables: str
    ) -> Replica:
        """A replica, which kills itself at a step if asked, with kinds and variables of its own if given."""
        extra = dict(variables)
        if crash_at is not None:
            extra[CRASH_AT] = crash_at
        if plug_in is not None:
            extra["PYTHONPATH"] = plug_in
        return (await self.replicas.start(role, 1, extra))[0]

    async def enqueue(self, key: str, count: int, **request: str) -> list[UUID]:
        jobs = [
            NewJob("counter.record", "automation", f"{key}-{number}", {"contract": str(self.contract), **request})
            for number in range(count)
        ]
        return [answer.job_id for answer in await enqueue_jobs(self.database, CHAIN_ID, ENVIRONMENT, jobs)]

    async def enqueue_once(self, key: str, event: bytes) -> UUID:
        """A job whose call reverts once the event was recorded by whomever."""
        request = {"contract": str(self.contract), "job": f"0x{event.hex()}"}
        job = NewJob("counter.record_once", "automation", key, request)
        return (await enqueue_jobs(self.database, CHAIN_ID, ENVIRONMENT, [job]))[0].job_id

    async def record_by_a_foreign_key(self, *events: bytes) -> None:
        """Make the events' effects with a key that is none of ours: the node signs for it, one after the other."""
        hashes: list[bytes] = []
        for event in events:
            data = abi.encode_call(artifacts.load("Counter"), "record", [event])
            parameters = {"from": str(DEPLOYER), "to": str(self.contract), "data": f"0x{data.hex()}"}
            hashes.append(await self.node.ask(Call("eth_sendTransaction", (parameters,), hash32, is_write=True)))

        async def are_mined() -> bool:
            return None not in await self.node.ask_many([methods.transaction_receipt(tx_hash) for tx_hash in hashes])

        await until(are_mined, seconds=10, what="the foreign transactions to be mined")

    async def await_death(self, replica: Replica, seconds: float = 60) -> None:
        """Wait until the replica has killed itself; anything else that ends it is a failure."""
        replica.is_expected_to_end = True
        await until(lambda: replica.process.poll() is not None, seconds=seconds, what="the replica to die at its step")
        assert replica.process.returncode == -9, (replica.process.returncode, replica.log.read_text()[-2000:])

    async def enqueue_until_death(self, key: str, doomed: Replica, seconds: float = 60) -> list[UUID]:
        """Enqueue a few jobs at a time until the replica has killed itself: siblings may take the first ones."""
        job_ids: list[UUID] = []

        async def is_dead() -> bool:
            if doomed.process.poll() is None:
                job_ids.extend(await self.enqueue(f"{key}-{len(job_ids)}", 3))
                with trio.move_on_after(0.3):
                    await doomed.process.wait()
            return doomed.process.poll() is not None

        doomed.is_expected_to_end = True
        await until(is_dead, seconds=seconds, what="the replica to die at its step")
        await self.await_death(doomed)
        return job_ids

    async def now(self) -> datetime:
        """PostgreSQL's clock."""
        async with self.database.connection() as connection:
            return cast("datetime", await connection.fetchval("SELECT clock_timestamp()"))

    async def enqueue_planted(self, key: str, *, run_at: datetime | None = None, **request: str) -> UUID:
        """A job of the kind that `tests.crash.planted` plugs in."""
        job = NewJob("planted.work", "automation", key, dict(request), run_at=run_at)
        return (await enqueue_jobs(self.database, CHAIN_ID, ENVIRONMENT, [job]))[0].job_id

    async def await_word(self, replica: Replica, event: str, seconds: float = 60) -> None:
        """Wait until the replica has logged the event."""
        await until(lambda: f'"{event}"' in replica.log.read_text(), seconds=seconds, what=f"the word {event!r}")

    async def record(self, job_id: UUID) -> JobRecord:
        """The job with its attempts."""
        record = await self.jobs.inspect(job_id)
        assert record is not None
        return record

    async def enqueue_later(self, key: str, *, seconds: float) -> UUID:
        """A job that is due only after a while."""
        run_at = datetime.now(UTC) + timedelta(seconds=seconds)
        job = NewJob("counter.record", "automation", key, {"contract": str(self.contract)}, run_at=run_at)
        return (await enqueue_jobs(self.database, CHAIN_ID, ENVIRONMENT, [job]))[0].job_id

    async def publish_by_hand(self, job_id: UUID) -> None:
        """Put the job's record into the queue, as a publisher with a wrong clock would."""
        async with open_redis(self.redis_url) as redis:
            await _queue(redis).publish_many([Record(delivery_id(job_id, 1), "counter.record", {}, 1_000, 8, 1_000)])

    async def delay_by_hand(self, job_id: UUID, seconds: float) -> None:
        """Publish the job's record and put it back for so long, as a worker with a wrong clock would."""
        await self.publish_by_hand(job_id)
        async with open_redis(self.redis_url) as redis:
            (delivery,) = await _queue(redis).fetch(1)
            await _queue(redis).put_back(delivery, delay_seconds=seconds)

    async def grow_old(self, database_url: str) -> None:
        """Let forty days pass for all jobs and workers, and let the next walk of retention begin before them."""
        async with past_triggers(database_url) as connection:
            await connection.execute(GROW_OLD)

    async def flushall(self) -> None:
        """Lose everything that Redis has."""
        async with open_redis(self.redis_url) as redis:
            await redis.ask_one(["FLUSHALL"])

    async def await_state(self, job_id: UUID, *states: str, seconds: float = 30) -> None:
        """Wait until the job is in one of the states."""

        async def reached() -> bool:
            record = await self.jobs.inspect(job_id)
            return record is not None and record.state in states

        await until(reached, seconds=seconds, what=f"the job to be one of {states}")

    async def await_all_ended(self, job_ids: Sequence[UUID], seconds: float = 60) -> dict[UUID, str]:
        """Wait until every job is in a terminal state; the states."""
        states: dict[UUID, str] = {}

        async def all_ended() -> bool:
            for replica in self.replicas.replicas:
                replica.check()
            async with self.database.connection() as connection:
                rows = await connection.fetch(
                    "SELECT job_id, state FROM coordination.jobs WHERE job_id = ANY ($1::uuid[])", list(job_ids)
                )
            states.update(dict.fromkeys(job_ids, "missing") | {row["job_id"]: row["state"] for row in rows})
            return all(state in TERMINAL for state in states.values())

        await until(all_ended, seconds=seconds, what="every job to end")
        return states

    async def await_found(self, kind: str, count: int, seconds: float = 60) -> list[tuple[str, str, Any]]:
        """Wait until a kind that discovers its own work has so many jobs, all ended: key, state, result of each."""
        found: list[tuple[str, str, Any]] = []

        async def all_ended() -> bool:
            self.replicas.check()
            async with self.database.connection() as connection:
                rows = await connection.fetch(
                    "SELECT idempotency_key, state, result FROM coordination.jobs WHERE kind = $1 ORDER BY 1", kind
                )
            found[:] = [(row["idempotency_key"], row["state"], row["result"]) for row in rows]
            return len(found) >= count and all(state in TERMINAL for _, state, _ in found)

        await until(all_ended, seconds=seconds, what=f"{count} jobs of {kind} to be found and to end")
        return found

    async def check(self) -> None:
        await check_invariants(self.database, self.node, self.contract)

    async def effects(self, job_ids: Sequence[UUID]) -> dict[UUID, int]:
        return await effects_of(self.node, self.contract, job_ids)


def _queue(redis: RedisServer) -> DeliveryQueue:
    name = queue_name("automation", ENVIRONMENT, CHAIN_ID)
    return DeliveryQueue(redis, prefix="{tayho}", name=name, lock_seconds=LOCK_SECONDS)


@asynccontextmanager
async def world(
    database: Database, database_url: str, redis_url: str, chain: LocalChain, folder: Path
) -> AsyncIterator[World]:
    """Everything up, no replica started yet."""
    async with (
        Endpoint.open(chain.url, chain_id=CHAIN_ID) as node,
        fleet(folder, environment_of(database_url, redis_url, chain.url)) as replicas,
    ):
        yield World(database, node, chain.contract, replicas, JobReader(database, CHAIN_ID, ENVIRONMENT), redis_url)


def environment_of(database_url: str, redis_url: str, rpc_url: str) -> dict[str, str]:
    """The variables of a replica that recovers within seconds."""
    return {
        "DATABASE_URL": database_url,
        "REDIS_URL": redis_url,
        "RPC_URL": rpc_url,
        "CHAIN_ID": str(CHAIN_ID),
        "ENVIRONMENT": ENVIRONMENT,
        "SIGNER_KEYS": json.dumps(dict(PUBLIC_ACCOUNTS)),
        "TX_JOURNAL_KEYS": json.dumps({"test": f"0x{'5a' * 32}"}),
        "TX_JOURNAL_ACTIVE_KEY_ID": "test",
        "TX_MAX_FEE_PER_GAS_WEI": str(100 * 10**9),
        # Two seconds of blocks: a receipt is seen before it is final.
        "TX_CONFIRMATIONS": "4",
        "TX_RECONCILE_SECONDS": str(RECONCILE_SECONDS),
        "QUEUE_LOCK_SECONDS": str(LOCK_SECONDS),
        "QUEUE_RECONCILE_SECONDS": "2",
        "HTTP_BIND": "127.0.0.1:0",
        "DRAIN_SECONDS": "10",
        "LOG_FORMAT": "json",
    }
