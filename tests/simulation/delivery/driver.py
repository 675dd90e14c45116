"""Runs one schedule: every operation, then the faults end, then everything must come to rest as the model says."""

from __future__ import annotations

import signal
import time
from collections import Counter
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import datetime, timedelta
from functools import partial
from typing import Any, cast
from uuid import UUID, uuid4

import trio
from attrs import define, field

from nursery.asyncio_bridge import open_bridge
from nursery.drain import Drain
from storage.database import Database
from storage.delivery import DeliveryQueue
from storage.errors import StorageError
from storage.records import Completion, Delivery, Record, delivery_id
from storage.redis_client import RedisServer, open_redis
from tayho.coordination.attempts import End, Ends, begin
from tayho.coordination.module import Coordination
from tayho.coordination.outbox import Publisher
from tayho.coordination.types import IdempotencyConflict, NewJob
from tayho.coordination.workers import WorkerRow
from tayho.kernel.ids import new_id
from tayho.kernel.jobs import Attempt, StaleAttempt
from tayho.kernel.steps import on_step
from tests.services.launch import Launched
from tests.services.proxy import FaultProxy, fault_proxy
from tests.simulation.delivery.clockwork import DRAIN_SECONDS, DUE_SECONDS_MAX, KIND, ROLE, SETTINGS
from tests.simulation.delivery.control import Control
from tests.simulation.delivery.model import Model, Wanted
from tests.simulation.delivery.operations import REPLICAS_MAX, Schedule
from tests.simulation.delivery.replica import CHAIN_ID, Replica, coordination_on, queues_on
from tests.simulation.delivery.stage import Stage
from tests.simulation.dying import Doom, kill_at_step
from tests.simulation.insisting import TRIES_SECONDS, insist
from tests.simulation.invariants import check_always, check_published

# How long everything may take to come to rest once nothing is broken any more. A machine under load needs most of it.
REST_SECONDS = 30.0
# How late a publisher of a healthy replica may be: a lease, a poll, and the machine's own hiccups.
LATE_SECONDS_MAX = 8.0

_MILLISECOND = timedelta(milliseconds=1)


@define
class Servers:
    """What all schedules share. Each empties Redis, and has an environment of its own in PostgreSQL."""

    postgres: Launched
    postgres_url: str
    redis: Launched


@define(eq=False)
class Driver:
    """The operations, one method each."""

    servers: Servers
    environment: str
    tasks: trio.Nursery
    # For looking, and for what people do: straight to the servers.
    database: Database
    redis: RedisServer
    # Enqueues through proxies, as any client over a network.
    client: Coordination
    client_proxies: dict[str, FaultProxy]
    foreign_worker_id: UUID
    model: Model = field(factory=Model)
    stage: Stage = field(factory=Stage)
    replicas: list[Replica] = field(factory=list[Replica])
    done: Counter[str] = field(factory=Counter)

    async def run(self, schedule: Schedule) -> None:
        for name, *arguments in schedule:
            await getattr(self, f"do_{name}")(*arguments)
            self.done[str(name)] += 1
            await self.check_always()
        await self.come_to_rest()
        await self.judge()

    # Work

    async def do_enqueue(self, one: tuple[int, str, str, int, int]) -> None:
        await self.do_enqueue_many([one])

    async def do_enqueue_many(self, many: Sequence[tuple[int, str, str, int, int]]) -> None:
        """A client asks until it has an answer, as it is told to; the answer must be the model's."""
        now = cast("datetime", await self.ask("SELECT clock_timestamp()"))
        jobs = [self._new_job(now, *one) for one in many]
        asked = [(job.idempotency_key, str(job.request["do"])) for job in jobs]
        with trio.fail_after(TRIES_SECONDS):
            while True:
                try:
                    answers = await self.client.enqueue_many(jobs)
                except IdempotencyConflict:
                    assert self.model.refuses(asked), f"I7: refused without a reason: {asked}"
                    return
                except StorageError:
                    await trio.sleep(0.02)
                else:
                    break
        assert not self.model.refuses(asked), f"I7: two requests under one key were accepted: {asked}"
        for job, answer in zip(jobs, answers, strict=True):
            self.model.record(job.idempotency_key, str(job.request["do"]), answer.job_id, job.run_at)

    def _new_job(self, now: datetime, key: int, do: str, limit_key: str, priority: int, milliseconds: int) -> NewJob:
        run_at = None if milliseconds == 0 else now + milliseconds * _MILLISECOND
        return NewJob(KIND, ROLE, f"key-{key}", {"do": do}, priority, run_at, limit_key or None)

    async def do_release(self) -> None:
        self.stage.release()

    async def do_wait(self, milliseconds: int) -> None:
        await trio.sleep(milliseconds / 1_000)

    # Replicas

    async def do_start(self) -> None:
        if sum(replica.is_up for replica in self.replicas) < REPLICAS_MAX:
            self.start_replica()

    def start_replica(self) -> Replica:
        name = f"{self.environment}-{len(self.replicas)}"
        replica = Replica(name, self.environment, self.servers.postgres_url, self.servers.redis.url, self.stage.handle)
        self.replicas.append(replica)
        self.tasks.start_soon(replica.run, name=name)
        return replica

    async def do_crash(self, number: int) -> None:
        for replica in self.up(number):
            replica.kill()

    async def do_crash_at(self, number: int, step: str, passes: int) -> None:
        for replica in self.up(number):
            replica.doom = Doom(step, passes)

    async def do_drain(self, number: int) -> None:
        for replica in self.up(number):
            replica.drain.request("a rolling deployment")

    async def do_freeze(self, number: int, side: str) -> None:
        for replica in self.up(number):
            for name, proxy in replica.proxies.items():
                if side in {name, "both"}:
                    proxy.freeze()

    async def do_thaw(self, number: int) -> None:
        for replica in self.up(number):
            for proxy in replica.proxies.values():
                proxy.thaw()

    def up(self, number: int) -> list[Replica]:
        """The replica of this number among those that are up, if there is any."""
        living = [replica for replica in self.replicas if replica.is_up]
        return [living[number % len(living)]] if living else []

    # Faults

    async def do_lose_answer(self, number: int, side: str, pattern: bytes, is_request: bool) -> None:
        for proxy in self.proxies_of(number, side):
            if is_request:
                proxy.swallow_request(pattern)
            else:
                proxy.swallow_answer_to(pattern)

    async def do_cut(self, number: int, side: str) -> None:
        for proxy in self.proxies_of(number, side):
            proxy.cut()

    def proxies_of(self, number: int, side: str) -> list[FaultProxy]:
        if number < 0:
            return [self.client_proxies[side]]
        return [replica.proxies[side] for replica in self.up(number) if side in replica.proxies]

    async def do_terminate_backends(self, number: int) -> None:
        for replica in self.up(number):
            await self.rows(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE starts_with(application_name, $1)",
                replica.name,
            )

    async def do_flushall(self) -> None:
        await self.redis.ask_one(["FLUSHALL"])

    async def do_script_flush(self) -> None:
        await self.redis.ask_one(["SCRIPT", "FLUSH"])

    async def do_restart_redis(self) -> None:
        self.servers.redis.restart(signal.SIGKILL)

    async def do_restart_postgres(self) -> None:
        self.servers.postgres.restart(signal.SIGQUIT)
        await self.ask("SELECT 1")

    async def do_evict(self, number: int) -> None:
        """Redis loses the record, and keeps its place in the queue."""
        for record_id in await self.record_ids(number):
            await self.redis.ask_one(["DEL", self.key(record_id)])

    async def do_displace(self, number: int) -> None:
        """Redis loses the place in the queue, and keeps the record."""
        for record_id in await self.record_ids(number):
            for name in ("prioritized", "delayed"):
                await self.redis.ask_one(["ZREM", self.key(name), record_id])

    async def do_end_record(self, as_completed: bool) -> None:
        """Somebody else's worker ends a record whose job has not ended."""
        for delivery in await self.stolen():
            if as_completed:
                await self.queue.acknowledge_many([Completion(delivery)])
            else:
                await self.queue.fail(delivery, "by somebody else", retry=False)

    async def do_steal_record(self) -> None:
        """Somebody takes a record and is never heard of again."""
        await self.stolen()

    async def do_publish_early(self, number: int) -> None:
        """A record comes before its job is due."""
        with suppress(StorageError):
            for record_id in await self.record_ids(number):
                await self.queue.publish_many([Record(record_id, KIND, {}, 1_000, 3, 20)])

    async def do_delay_for_an_hour(self) -> None:
        """A worker whose clock is an hour ahead has put every delivery back that nobody holds."""
        due_at = (time.time() + 3_600) * 1_000
        for record_id in await self.record_ids():
            for name in ("prioritized", "delayed"):
                if await self.redis.ask_one(["ZREM", self.key(name), record_id]):
                    # BullMQ's score: milliseconds, and room for those that are due at once.
                    await self.redis.ask_one(["ZADD", self.key("delayed"), int(due_at) * 0x1000, record_id])

    async def do_promote(self) -> None:
        """A worker whose clock is an hour ahead hands out what is delayed."""
        with suppress(StorageError):
            await self.queue.promote_many(await self.record_ids())

    async def stolen(self) -> list[Delivery]:
        with suppress(StorageError):
            return await self.queue.fetch(1)
        return []

    # Races

    async def do_publish_at_once(self, count: int) -> None:
        await self.do_publish_again()
        async with trio.open_nursery() as publishers:
            for _ in range(count):
                publishers.start_soon(self._publish_once)

    async def _publish_once(self) -> None:
        queue_of = queues_on(self.redis, self.environment)
        with suppress(StorageError):
            await Publisher(self.database, queue_of, CHAIN_ID, self.environment, SETTINGS).publish_due()

    async def do_publish_again(self) -> None:
        """Every published row is due now, whatever its clock says."""
        await self.rows(
            """
            WITH due AS (
                SELECT job_id FROM coordination.outbox
                WHERE environment = $1 AND published_at IS NOT NULL ORDER BY job_id FOR UPDATE
            )
            UPDATE coordination.outbox AS outbox SET due_at = now() FROM due WHERE outbox.job_id = due.job_id
            """,
            self.environment,
        )

    async def do_end_again(self, number: int, verdict: str) -> None:
        """An attempt that has ended ends again, and one that never was: nothing may come of it (I6)."""
        for wanted in self.wanted(number):
            rows = await self.rows(
                # One that ended just so is answered again, for an answer that was lost; nothing is written.
                """
                SELECT * FROM coordination.attempts
                WHERE job_id = $1 AND state <> 'running' AND state NOT IN ($2, 'cancelled')
                """,
                wanted.job_id,
                verdict,
            )
            stale = [Attempt(row["job_id"], row["attempt_number"], row["token"], row["worker_id"]) for row in rows]
            number = await self.ask("SELECT attempt_number FROM coordination.jobs WHERE job_id = $1", wanted.job_id)
            stale.append(Attempt(wanted.job_id, number, new_id().hex, self.foreign_worker_id))
            ends = Ends(self.database, SETTINGS.attempts_max)
            for attempt in stale:
                end = End(attempt, cast("Any", verdict), {"result": "stolen", "message": "stolen"})
                answers = await insist(partial(ends.end_all_if_current, [end]))
                assert all(isinstance(answer, StaleAttempt) for answer in answers), f"I6: a stale end stood: {attempt}"

    async def do_begin_again(self, number: int) -> None:
        """Somebody begins a delivery that another may hold, and dies."""
        for wanted in self.wanted(number):
            generation = await self.ask("SELECT generation FROM coordination.jobs WHERE job_id = $1", wanted.job_id)
            delivery = Delivery(delivery_id(wanted.job_id, generation), new_id().hex, KIND, {}, 0, 3, 0, None, None, {})
            ask = partial(
                begin,
                self.database,
                self.database,
                [delivery],
                worker_id=self.foreign_worker_id,
                attempts_max=SETTINGS.attempts_max,
                chain_id=CHAIN_ID,
                environment=self.environment,
                kinds=[KIND],
            )
            await insist(ask)

    # People

    async def do_pause(self, whole_role: bool) -> None:
        await insist(partial(self.control.pause, "" if whole_role else KIND))

    async def do_resume(self, whole_role: bool) -> None:
        await insist(partial(self.control.resume, "" if whole_role else KIND))

    async def do_cancel(self, number: int) -> None:
        for wanted in self.wanted(number):
            if await insist(partial(self.control.cancel, wanted.job_id)):
                wanted.was_cancelled = True

    async def do_replay(self, number: int) -> None:
        for wanted in self.wanted(number):
            attempts_before = await insist(partial(self.control.replay, wanted.job_id))
            if attempts_before is not None:
                wanted.attempts_before = attempts_before
                # A replay is due at once.
                wanted.run_at = None
                wanted.was_cancelled = False

    async def do_limit(self, limit_key: str, concurrent_max: int) -> None:
        await insist(partial(self.control.limit, limit_key, concurrent_max))

    # The end

    async def come_to_rest(self) -> None:
        """No fault any more, one healthy replica, everything released: every job ends, Redis hands nothing out."""
        self.stage.open_for_good()
        for proxies in (self.client_proxies, *(replica.proxies for replica in self.replicas)):
            for proxy in proxies.values():
                proxy.thaw()
                proxy.swallow_nothing()
        for replica in self.replicas:
            replica.doom = None
        for kind in ("", KIND):
            await insist(partial(self.control.resume, kind))
        healthy = self.start_replica()
        began_at = trio.current_time()
        with trio.move_on_after(REST_SECONDS) as patience:
            while not await self.is_at_rest():
                await self.check_always()
                if trio.current_time() - began_at > 1:
                    await self.check_published()
                assert healthy.is_up, f"the healthy replica ended: {healthy.failure!r}"
                await trio.sleep(0.03)
        assert not patience.cancelled_caught, f"I8: not at rest within {REST_SECONDS:g} s:\n{await self.told()}"
        for replica in self.replicas:
            replica.drain.request("the schedule is over")
        with trio.move_on_after(DRAIN_SECONDS + 10) as patience:
            for replica in self.replicas:
                await replica.ended.wait()
        assert not patience.cancelled_caught, "OPS-6: a drain did not end in time"
        failures = [replica.failure for replica in self.replicas if replica.failure is not None]
        if failures:
            raise BaseExceptionGroup("replicas ended by what may end no process", failures)

    async def is_at_rest(self) -> bool:
        if await self.ask("SELECT count(*) FROM coordination.outbox WHERE environment = $1", self.environment):
            return False
        with suppress(StorageError):
            counts = await self.queue.counts()
            return not any(counts[name] for name in ("active", "waiting", "prioritized"))
        return False

    async def judge(self) -> None:
        await self.check_always()
        count = await self.ask("SELECT count(*) FROM coordination.jobs WHERE environment = $1", self.environment)
        assert count == len(self.model.accepted), f"I7: {len(self.model.accepted)} keys were accepted, {count} are jobs"
        for wanted in self.model.accepted.values():
            (job,) = await self.rows("SELECT * FROM coordination.jobs WHERE job_id = $1", wanted.job_id)
            attempts = await self.rows(
                "SELECT * FROM coordination.attempts WHERE job_id = $1 ORDER BY attempt_number", wanted.job_id
            )
            self.model.judge(wanted, job, attempts, self.stage)

    async def check_always(self) -> None:
        async def ask() -> None:
            async with self.database.connection() as connection:
                await check_always(connection, CHAIN_ID, self.environment, due_seconds_max=DUE_SECONDS_MAX)

        await insist(ask)

    async def check_published(self) -> None:
        async def ask() -> None:
            async with self.database.connection() as connection:
                await check_published(connection, CHAIN_ID, self.environment, late_seconds_max=LATE_SECONDS_MAX)

        await insist(ask)

    async def told(self) -> str:
        """What has not come to rest, for the one who reads the failure."""
        jobs = await self.rows(
            """
            SELECT jobs.job_id, idempotency_key, request, state, generation, attempts_spent, run_at - now() AS run_in,
                outbox.due_at - now() AS due_in, outbox.published_at, cancel_requested_at
            FROM coordination.jobs AS jobs LEFT JOIN coordination.outbox AS outbox USING (job_id)
            WHERE jobs.environment = $1 AND jobs.ended_at IS NULL
            """,
            self.environment,
        )
        lines = [str({name: str(value) for name, value in row.items()}) for row in jobs]
        for row in jobs:
            [state] = await self.queue.states([delivery_id(row["job_id"], row["generation"])])
            lines.append(f"{row['job_id']} generation {row['generation']}: {state}")
        lines.append(f"Redis: {dict(await self.queue.counts())}")
        lines += [f"{replica.name}: up {replica.is_up}, failure {replica.failure!r}" for replica in self.replicas]
        return "\n".join(lines)

    # Means

    @property
    def control(self) -> Control:
        return Control(self.database, self.environment)

    @property
    def queue(self) -> DeliveryQueue:
        return queues_on(self.redis, self.environment)(ROLE)

    def key(self, name: str) -> str:
        return f"{{tayho}}:{ROLE}-{self.environment}:{name}"

    def wanted(self, number: int) -> list[Wanted]:
        """The accepted key of this number, if there is any."""
        accepted = list(self.model.accepted.values())
        return [accepted[number % len(accepted)]] if accepted else []

    async def record_ids(self, number: int | None = None) -> list[str]:
        """The present record of the job of this number, or of each job."""
        chosen = self.model.accepted.values() if number is None else self.wanted(number)
        return [
            delivery_id(
                wanted.job_id,
                await self.ask("SELECT generation FROM coordination.jobs WHERE job_id = $1", wanted.job_id),
            )
            for wanted in chosen
        ]

    async def rows(self, sql: str, *arguments: object) -> Sequence[Any]:
        async def ask() -> Sequence[Any]:
            async with self.database.connection() as connection:
                return await connection.fetch(sql, *arguments)

        return await insist(ask)

    async def ask(self, sql: str, *arguments: object) -> Any:
        return (await self.rows(sql, *arguments))[0][0]


@asynccontextmanager
async def driver(servers: Servers) -> AsyncGenerator[Driver]:
    """A fresh environment and an empty Redis. Needs the waits of `clockwork` shortened."""
    environment = f"sim-{uuid4().hex[:12]}"
    on_step(kill_at_step)
    try:
        async with (
            open_bridge(),
            Database.open(servers.postgres_url, pool_size=4, application_name="looking") as database,
            open_redis(servers.redis.url) as redis,
            fault_proxy(servers.postgres_url) as postgres_side,
            fault_proxy(servers.redis.url) as redis_side,
            Database.open(
                postgres_side.url_for(servers.postgres_url), pool_size=2, application_name="client"
            ) as client_database,
            trio.open_nursery() as tasks,
        ):
            await redis.ask_one(["FLUSHALL"])
            foreign = WorkerRow(database, new_id(), Drain(seconds=1))
            await foreign.register("somebody else", CHAIN_ID, environment, [ROLE], "0")
            yield Driver(
                servers,
                environment,
                tasks,
                database,
                redis,
                coordination_on(client_database, redis, environment),
                {"postgres": postgres_side, "redis": redis_side},
                foreign.worker_id,
            )
            tasks.cancel_scope.cancel()
    finally:
        on_step(None)
