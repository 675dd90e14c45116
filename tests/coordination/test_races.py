"""Whatever meets over one job, or over many in opposite orders: nobody sees an error and nothing is left half done."""

from __future__ import annotations

import random
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from functools import cache
from uuid import UUID

import pytest
import trio
from attrs import evolve

from storage.database import Database
from storage.delivery import DeliveryQueue
from storage.errors import StoreUnavailable
from storage.records import Delivery, delivery_id
from storage.redis_client import open_redis
from tayho.coordination import attempts as attempts_room
from tayho.coordination import store
from tayho.coordination import worker as worker_room
from tayho.coordination.attempts import Begun, End, Ends, begin
from tayho.coordination.module import Coordination
from tayho.coordination.types import Settlement
from tayho.kernel.ids import new_id
from tayho.kernel.jobs import Attempt, Completed, Job, Outcome
from tests.coordination.conftest import CHAIN_ID, ENVIRONMENT, ROLE, SETTINGS, Plane, new_job
from tests.coordination.test_worker import at_work
from tests.waiting import until

WAITERS = """
SELECT count(*)::integer FROM pg_stat_activity
WHERE datname = current_database() AND wait_event_type = 'Lock'
"""


# Which way the planner joins is its own affair and changes with the size of a table; the order of locks must not.
PLANS = {
    "nested loops": ("enable_hashjoin", "enable_mergejoin"),
    "hash joins": ("enable_nestloop", "enable_mergejoin"),
}
REFUSE_PLAN = "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET {} = off', current_database()); END $$"


@asynccontextmanager
async def planning(database: Database, url: str, plan: str) -> AsyncGenerator[Database]:
    """The same database, opened again by somebody whose statements are planned in this way."""
    async with database.connection() as connection:
        for way in PLANS[plan]:
            await connection.execute(REFUSE_PLAN.format(way))
    async with Database.open(url, pool_size=4, application_name="tests planning") as opened:
        yield opened


async def turn_around(database: Database, table: str, key: str, column: str, ids: Sequence[UUID]) -> None:
    """Rewrite the rows from the last to the first, so that the table does not lie in the order of its keys."""
    async with database.connection() as connection:
        for one in sorted(ids, reverse=True):
            await connection.execute(f"UPDATE {table} SET {column} = now() WHERE {key} = $1", one)


async def until_waiting(database: Database, count: int) -> None:
    """Return once so many transactions wait for a lock."""

    async def waiting() -> bool:
        async with database.connection() as connection:
            return await connection.fetchval(WAITERS) == count

    await until(waiting, what=f"{count} transactions to wait for a lock")


async def locked_before_the_middle(
    database: Database,
    table: str,
    key: str,
    ids: Sequence[UUID],
    work: Callable[[], Awaitable[object]],
    *,
    look_too: Callable[[], Awaitable[None]] = trio.lowlevel.checkpoint,
) -> list[UUID]:
    """The rows that `work` holds when it comes to the middle one of `ids`, which somebody else holds until then.

    `look_too` may look at more at that moment.
    """
    middle = sorted(ids)[len(ids) // 2]

    async def run() -> None:
        await work()

    async with trio.open_nursery() as racers, database.transaction() as holder:
        await holder.execute(f"SELECT FROM {table} WHERE {key} = $1 FOR UPDATE", middle)
        racers.start_soon(run)
        await until_waiting(database, 1)
        async with database.transaction() as look:
            free = {row[key] for row in await look.fetch(f"SELECT {key} FROM {table} FOR UPDATE SKIP LOCKED")}
        await look_too()
    return sorted(set(ids) - free - {middle})


def _deliveries(job_ids: Sequence[UUID]) -> list[Delivery]:
    return [Delivery(delivery_id(job_id, 1), new_id().hex, "kind", {}, 0, 3, 0, None, None, {}) for job_id in job_ids]


async def _begin(plane: Plane, deliveries: Sequence[Delivery], worker_id: UUID) -> list[Begun]:
    return await begin(
        plane.database,
        plane.database,
        deliveries,
        worker_id=worker_id,
        attempts_max=SETTINGS.attempts_max,
        chain_id=CHAIN_ID,
        environment=ENVIRONMENT,
        kinds=["kind"],
    )


async def _many_begun(plane: Plane, count: int) -> tuple[list[Delivery], list[Attempt]]:
    enqueued = await plane.coordination.enqueue_many([new_job(f"key-{number}") for number in range(count)])
    deliveries = _deliveries([one.job_id for one in enqueued])
    begun = await _begin(plane, deliveries, await plane.worker())
    attempts = [one.attempt for one in begun if one.verdict == "begun" and one.attempt is not None]
    assert len(attempts) == count
    return deliveries, attempts


async def _attempt_states(plane: Plane, job_id: UUID) -> list[str]:
    record = await plane.coordination.inspect(job_id)
    assert record is not None
    return [attempt.state for attempt in record.attempts]


async def test_a_settlement_that_waited_for_a_begin_leaves_no_attempt_running(plane: Plane) -> None:
    """Goal: I6: a statement must see what it waited for. Method: hold the job's row, let a delivery begin and the
    reconciler settle queue for it in this order, let go; the attempt that began meanwhile is ended with its job."""
    job_id = await plane.enqueue()
    worker_id = await plane.worker()
    first = await plane.begin(job_id, worker_id)
    assert first.attempt is not None
    async with plane.database.transaction() as tx:
        await plane.coordination.hold_for_lineage_if_current(tx, [first.attempt])
    await Ends(plane.database, SETTINGS.attempts_max).end_all_if_current([End(first.attempt, "returned")])
    verdicts: list[str] = []

    async def deliver() -> None:
        verdicts.append((await plane.begin(job_id, worker_id)).verdict)

    async def settle() -> None:
        async with plane.database.transaction() as tx:
            assert await plane.coordination.settle(tx, [Settlement(job_id, "completed", {})]) == {job_id}

    async with trio.open_nursery() as racers, plane.database.transaction() as holder:
        await holder.execute("SELECT FROM coordination.jobs WHERE job_id = $1 FOR UPDATE", job_id)
        racers.start_soon(deliver)
        await until_waiting(plane.database, 1)
        racers.start_soon(settle)
        await until_waiting(plane.database, 2)
    assert verdicts == ["begun"]
    assert await plane.state(job_id) == "completed"
    assert await _attempt_states(plane, job_id) == ["returned", "lost"]


async def test_two_takeovers_at_once_both_get_a_verdict_and_one_attempt_runs(plane: Plane) -> None:
    """Goal: a group of deliveries does not fail because one of its jobs was taken over meanwhile. Method: hold the row
    of a running job, let two groups begin it; the second group has a job of its own too."""
    job_id, other_id = await plane.enqueue("shared"), await plane.enqueue("other")
    worker_id = await plane.worker()
    await plane.begin(job_id, worker_id)
    verdicts: list[list[str]] = []

    async def deliver(job_ids: Sequence[UUID]) -> None:
        verdicts.append([begun.verdict for begun in await _begin(plane, _deliveries(job_ids), worker_id)])

    async with trio.open_nursery() as racers, plane.database.transaction() as holder:
        await holder.execute("SELECT FROM coordination.jobs WHERE job_id = $1 FOR UPDATE", job_id)
        racers.start_soon(deliver, [job_id])
        await until_waiting(plane.database, 1)
        racers.start_soon(deliver, [job_id, other_id])
        await until_waiting(plane.database, 2)
    assert sorted(verdicts) == [["begun"], ["begun", "begun"]]
    assert await _attempt_states(plane, job_id) == ["lost", "lost", "running"]
    assert await _attempt_states(plane, other_id) == ["running"]


async def _settle(plane: Plane, attempts: Sequence[Attempt]) -> None:
    async with plane.database.transaction() as tx:
        await plane.coordination.settle(tx, [Settlement(one.job_id, "completed", {}) for one in attempts])


async def _confirm(plane: Plane, attempts: Sequence[Attempt]) -> None:
    async with plane.database.transaction() as tx:
        await plane.coordination.confirm_if_current(tx, attempts)


async def _hold(plane: Plane, attempts: Sequence[Attempt]) -> None:
    async with plane.database.transaction() as tx:
        await plane.coordination.hold_for_lineage_if_current(tx, attempts)


async def _lock(plane: Plane, attempts: Sequence[Attempt]) -> None:
    async with plane.database.transaction() as tx:
        await plane.coordination.lock_if_current(tx, attempts)


async def _end(plane: Plane, attempts: Sequence[Attempt]) -> None:
    await Ends(plane.database, SETTINGS.attempts_max).end_all_if_current([End(one, "completed") for one in attempts])


async def _take_over(plane: Plane, attempts: Sequence[Attempt]) -> None:
    await _begin(plane, _deliveries([one.job_id for one in attempts]), attempts[0].worker_id)


async def _advance(plane: Plane, attempts: Sequence[Attempt]) -> None:
    async with plane.database.connection() as connection:
        await store.ADVANCE_GENERATION_IF_UNFINISHED(connection, [one.job_id for one in attempts], [1] * len(attempts))


async def _mark_published(plane: Plane, attempts: Sequence[Attempt]) -> None:
    async with plane.database.connection() as connection:
        await store.MARK_PUBLISHED(connection, [one.job_id for one in attempts], [1] * len(attempts), 60.0)


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize(
    ("table", "change", "has_lineages"),
    [
        pytest.param(f"coordination.{table}", change, has_lineages, id=f"{table}, {change.__name__.strip('_')}")
        for table, change, has_lineages in (
            ("jobs", _take_over, False),
            ("jobs", _end, False),
            ("jobs", _hold, False),
            ("jobs", _lock, False),
            ("jobs", _confirm, True),
            ("jobs", _settle, True),
            ("jobs", _advance, False),
            ("outbox", _mark_published, False),
            ("outbox", _end, False),
            ("outbox", _confirm, True),
            ("outbox", _settle, True),
        )
    ],
)
async def test_whoever_changes_many_rows_locks_them_in_the_order_of_their_jobs(
    plane: Plane,
    database_url: str,
    table: str,
    change: Callable[[Plane, Sequence[Attempt]], Awaitable[None]],
    has_lineages: bool,
    plan: str,
) -> None:
    """Goal: one order for all, so that no two deadlock. Method: ask for the change in a shuffled order, of tables that
    lie in another order, under either plan, while the middle row is held; what it has locked by then is exactly what
    comes before."""
    _, attempts = await _many_begun(plane, 12)
    if has_lineages:
        await _hold(plane, attempts)
    job_ids = [one.job_id for one in attempts]
    await turn_around(plane.database, "coordination.jobs", "job_id", "updated_at", job_ids)
    await turn_around(plane.database, "coordination.outbox", "job_id", "due_at", job_ids)
    shuffled = random.Random(4).sample(attempts, len(attempts))
    async with planning(plane.database, database_url, plan) as planned:
        other = Plane(planned, plane.queue_of, Coordination(planned, plane.queue_of, CHAIN_ID, ENVIRONMENT, SETTINGS))

        async def work() -> None:
            await change(other, shuffled)

        locked = await locked_before_the_middle(plane.database, table, "job_id", job_ids, work)
    assert locked == sorted(job_ids)[:6]


async def test_ends_marks_and_begins_of_the_same_jobs_do_not_disturb_each_other(
    plane: Plane, database_url: str
) -> None:
    """Goal: no error reaches anybody. Method: two hundred running jobs are ended in one shuffled group, marked as
    published in another order, and begun again by a repeated fetch, backwards, all at once; the outbox row in the
    middle is held until all three wait for something."""
    deliveries, attempts = await _many_begun(plane, 200)
    job_ids = sorted(one.job_id for one in attempts)
    await turn_around(plane.database, "coordination.outbox", "job_id", "due_at", job_ids)
    shuffled = random.Random(7).sample(attempts, len(attempts))
    answers: list[str | Exception] = []

    async with planning(plane.database, database_url, "nested loops") as others:
        racing = Plane(others, plane.queue_of, plane.coordination)

        async def end() -> None:
            ends = Ends(others, SETTINGS.attempts_max)
            ended = await ends.end_all_if_current([End(attempt, "completed") for attempt in shuffled])
            answers.extend(one if isinstance(one, Exception) else one.state for one in ended)

        async def begin_again() -> None:
            await _begin(racing, list(reversed(deliveries)), attempts[0].worker_id)

        async with trio.open_nursery() as racers, plane.database.transaction() as holder:
            await holder.execute("SELECT FROM coordination.outbox WHERE job_id = $1 FOR UPDATE", job_ids[100])
            racers.start_soon(_mark_published, racing, list(reversed(attempts)))
            await until_waiting(plane.database, 1)
            racers.start_soon(end)
            await until_waiting(plane.database, 2)
            racers.start_soon(begin_again)
            await until_waiting(plane.database, 3)
    assert answers == ["completed"] * 200
    assert await plane.coordination.count_by_state() == {"completed": 200}
    assert (await plane.coordination.backlog()).rows == 0


class Generous(DeliveryQueue):
    """Hands out more than was asked for, as after a lost reply."""

    async def fetch(self, count: int) -> list[Delivery]:
        return await super().fetch(count + 3)


async def test_more_deliveries_than_slots_crash_nothing(plane: Plane, redis_url: str) -> None:
    """Goal: a fetch that brings more than the free slots is survived. Method: a queue that always brings three more to
    a worker of one slot; every job is run once."""
    runs: list[UUID] = []

    async def handle(job: Job, attempt: Attempt) -> Outcome:
        await trio.lowlevel.checkpoint()
        runs.append(job.job_id)
        return Completed()

    async with open_redis(redis_url) as redis:
        queue = Generous(redis, prefix="{tayho}", name=ROLE, lock_seconds=SETTINGS.lock_seconds)
        narrow = Coordination(plane.database, lambda _: queue, CHAIN_ID, ENVIRONMENT, evolve(SETTINGS, concurrency=1))
        job_ids = [await plane.enqueue(f"key-{number}") for number in range(12)]
        async with at_work(Plane(plane.database, lambda _: queue, narrow), handle):
            await _all_completed(plane, 12)
    assert sorted(runs) == sorted(job_ids)


async def test_deliveries_that_could_not_begin_come_back_long_before_their_lock_is_over(
    plane: Plane, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Goal: an outage of PostgreSQL costs a second, not a lock. Method: the first begin fails under locks of a minute;
    every job is completed within seconds, and no attempt was spent on it."""
    outages = [StoreUnavailable("PostgreSQL is away")]

    async def begin_after_an_outage(*arguments: object, **named: object) -> list[Begun]:
        if outages:
            raise outages.pop()
        return await attempts_room.begin(*arguments, **named)  # pyright: ignore[reportArgumentType]

    async def handle(job: Job, attempt: Attempt) -> Outcome:
        await trio.lowlevel.checkpoint()
        return Completed()

    monkeypatch.setattr(worker_room, "begin", begin_after_an_outage)
    settings = evolve(SETTINGS, lock_seconds=60)
    async with open_redis(redis_url) as redis:

        @cache
        def queue_of(role: str) -> DeliveryQueue:
            return DeliveryQueue(redis, prefix="{tayho}", name=role, lock_seconds=settings.lock_seconds)

        coordination = Coordination(plane.database, queue_of, CHAIN_ID, ENVIRONMENT, settings)
        job_ids = [await plane.enqueue(f"key-{number}") for number in range(4)]
        async with at_work(Plane(plane.database, queue_of, coordination), handle):
            await _all_completed(plane, 4)
    assert outages == []
    assert [await _attempt_states(plane, job_id) for job_id in job_ids] == [["completed"]] * 4


async def _all_completed(plane: Plane, count: int) -> None:
    async def completed() -> bool:
        return (await plane.coordination.count_by_state()).get("completed") == count

    await until(completed, seconds=10, what=f"{count} completed jobs")
