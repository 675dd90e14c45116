"""Pauses: what is paused is not taken, and what is resumed goes on at once (DLV-15)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from uuid import UUID

import pytest
import trio
import trio.testing
from attrs import define, evolve

from storage.database import Connection
from storage.records import Delivery
from tayho.coordination import store
from tayho.coordination.control import throttles as throttles_module
from tayho.coordination.control.throttles import Throttles
from tayho.coordination.control.types import Deed
from tayho.coordination.module import Coordination
from tayho.coordination.outbox import PAUSED_SECONDS
from tayho.kernel.jobs import Attempt, Completed, Job, Outcome
from tayho.kernel.steps import on_step
from tests.coordination.conftest import CHAIN_ID, ENVIRONMENT, ROLE, SETTINGS, Plane, new_job
from tests.coordination.test_control_jobs import actions
from tests.coordination.test_worker import at_work
from tests.waiting import until

DEED = Deed("ada", "the node lies")


def throttles_of(plane: Plane) -> Throttles:
    return Throttles(plane.database, CHAIN_ID, ENVIRONMENT)


async def complete(job: Job, attempt: Attempt) -> Outcome:
    await trio.lowlevel.checkpoint()
    return Completed()


async def _completes(plane: Plane, job_ids: Sequence[UUID], *, seconds: float) -> None:
    async def all_completed() -> bool:
        return {await plane.state(job_id) for job_id in job_ids} == {"completed"}

    await until(all_completed, seconds=seconds, what="the jobs to complete")


async def _outbox(plane: Plane, job_id: UUID) -> tuple[bool, float]:
    """Whether the job is published, and in how many seconds it is looked at next."""
    async with plane.database.connection() as connection:
        row = await connection.fetchrow(
            "SELECT published_at IS NOT NULL AS is_published, extract(epoch FROM due_at - now())::float8 AS seconds"
            " FROM coordination.outbox WHERE job_id = $1",
            job_id,
        )
    assert row is not None
    return row["is_published"], row["seconds"]


class Counting:
    """A queue that tells how many fetches were made of it."""

    def __init__(self, plane: Plane) -> None:
        self._queue = plane.queue
        self.fetches = 0

    def __getattr__(self, name: str) -> object:
        return getattr(self._queue, name)

    async def fetch(self, count: int) -> list[Delivery]:
        self.fetches += 1
        return await self._queue.fetch(count)


@define
class Beats:
    """How often the workers of this process have heard what is wanted of them."""

    count: int = 0

    async def another(self) -> None:
        """Return when the next heartbeat is answered and obeyed."""
        seen = self.count
        await until(lambda: self.count > seen, seconds=10, what="a heartbeat")
        await trio.testing.wait_all_tasks_blocked()


@asynccontextmanager
async def heartbeats() -> AsyncIterator[Beats]:
    beats = Beats()

    def hear(step: str) -> None:
        beats.count += step == "worker.after_heartbeat"

    on_step(hear)
    try:
        yield beats
    finally:
        on_step(None)


async def test_a_paused_role_is_neither_published_nor_fetched_and_goes_on_at_once(plane: Plane) -> None:
    """Goal: both ends of a role's pause, without a poll of a minute or a heartbeat. Method: a worker at work; pause;
    jobs that were enqueued and one that was published by hand stay; no fetch is made; resume: all complete."""
    queue = Counting(plane)
    settings = evolve(SETTINGS, poll_milliseconds=60_000)
    rarely = Coordination(plane.database, lambda _: queue, CHAIN_ID, ENVIRONMENT, settings)  # type: ignore[arg-type,return-value]
    slow = Plane(plane.database, plane.queue_of, rarely)
    async with heartbeats() as beats, at_work(slow, complete):
        before = await slow.enqueue("before")
        await _completes(plane, [before], seconds=10)
        assert await throttles_of(plane).pause(ROLE, DEED)
        await beats.another()
        fetches = queue.fetches
        jobs = [(await slow.enqueue(f"key-{number}")) for number in range(20)]

        async def put_off() -> bool:
            return all([(await _outbox(plane, job_id))[1] > 500 for job_id in jobs])

        await until(put_off, seconds=5, what="the publisher to put the jobs off")
        assert not any([(await _outbox(plane, job_id))[0] for job_id in jobs])
        assert queue.fetches == fetches
        assert await throttles_of(plane).resume(ROLE, DEED)
        await _completes(plane, jobs, seconds=5)


async def test_what_waits_in_the_queue_of_a_paused_role_stays_there(plane: Plane) -> None:
    """Goal: a process that starts under a pause takes nothing, from its first moment. Method: publish, pause, start a
    worker; for three heartbeats no fetch is made; resume: it runs."""
    job_id = await plane.enqueue()
    await plane.publisher().publish_due()
    await throttles_of(plane).pause(ROLE, DEED)
    queue = Counting(plane)
    counted = Coordination(plane.database, lambda _: queue, CHAIN_ID, ENVIRONMENT, SETTINGS)  # type: ignore[arg-type,return-value]
    async with heartbeats() as beats, at_work(Plane(plane.database, plane.queue_of, counted), complete):
        for _ in range(3):
            await beats.another()
            # What is paused stays paused; the notification makes the next heartbeat come at once.
            await throttles_of(plane).pause(ROLE, DEED)
        assert queue.fetches == 0
        assert (await plane.queue.counts())["prioritized"] == 1
        await throttles_of(plane).resume(ROLE, DEED)
        await _completes(plane, [job_id], seconds=5)


async def test_a_paused_kind_is_put_back_and_its_role_goes_on(plane: Plane) -> None:
    """Goal: one kind alone. Method: two kinds of one role, both published; pause one; the other completes, the paused
    one's delivery is put back unspent; a job of it that comes now is not published; a paused kind's own resumption
    touches no other pause."""
    throttles = throttles_of(plane)
    paused = (await plane.coordination.enqueue(evolve(new_job("paused"), kind="other"))).job_id
    free = await plane.enqueue("free")
    await plane.publisher().publish_due()
    await throttles.pause(ROLE, DEED, kind="other")
    async with at_work(plane, complete):
        await _completes(plane, [free], seconds=10)
        late = (await plane.coordination.enqueue(evolve(new_job("late"), kind="other"))).job_id

        async def put_back() -> bool:
            return (await plane.queue.counts())["delayed"] == 1

        await until(put_back, seconds=10, what="the paused delivery to be put back")

        async def put_off() -> bool:
            return (await _outbox(plane, late))[1] > 500

        await until(put_off, seconds=10, what="the late job to be put off")
    for job_id in (paused, late):
        record = await plane.coordination.inspect(job_id)
        assert record is not None
        assert (record.state, record.attempt_number) == ("queued", 0)
    await throttles.pause(ROLE, DEED)
    assert await throttles.resume(ROLE, DEED, kind="other")
    assert [(pause.role, pause.kind) for pause in await throttles.list_pauses()] == [(ROLE, "")]


async def test_a_handler_that_runs_and_a_job_that_owns_a_nonce_go_on(plane: Plane) -> None:
    """Goal: a pause takes nothing away. Method: pause while an attempt runs; it completes. A job whose nonce is taken
    begins again in spite of the pause: its lane waits for it."""
    worker_id = await plane.worker()
    owner = await plane.enqueue("owner")
    begun = await plane.begin(owner, worker_id)
    assert begun.attempt is not None
    async with plane.database.transaction() as tx:
        await plane.coordination.hold_for_lineage_if_current(tx, [begun.attempt])
    await throttles_of(plane).pause(ROLE, DEED)
    assert (await plane.begin(owner, worker_id)).verdict == "begun"
    other = await plane.enqueue("other")
    assert (await plane.begin(other, worker_id)).verdict == "paused"
    await plane.make_due()
    await plane.publisher().publish_due()
    assert (await _outbox(plane, owner))[0]
    assert not (await _outbox(plane, other))[0]


async def test_pausing_twice_is_one_pause_and_resuming_twice_frees_what_was_left(plane: Plane) -> None:
    """Goal: idempotent, and each change is written down once. Method: pause twice, resume twice; a row that the first
    resumption did not come to, because it died, is freed by the second."""
    throttles = throttles_of(plane)
    job_id = await plane.enqueue()
    assert [await throttles.pause(ROLE, DEED) for _ in range(2)] == [True, False]
    await plane.publisher().publish_due()
    assert await throttles.resume(ROLE, DEED)
    async with plane.database.connection() as connection:
        await connection.execute("UPDATE coordination.outbox SET due_at = now() + interval '600 seconds'")
    assert not await throttles.resume(ROLE, DEED)
    assert (await _outbox(plane, job_id))[1] <= 0
    assert [action for action, *_ in await actions(plane)] == ["pause", "resume"]


async def test_resuming_frees_every_page_and_nothing_before_its_time(
    plane: Plane, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Goal: all of a long backlog, of its role and kind alone, and no job early. Method: pages of three over eleven
    jobs of the kind, two of another kind, one that is not due for an hour."""
    monkeypatch.setattr(throttles_module, "PAGE_MAX", 3)
    mine = [(await plane.coordination.enqueue(new_job(f"mine-{number}"))).job_id for number in range(11)]
    others = [
        (await plane.coordination.enqueue(evolve(new_job(f"other-{number}"), kind="other"))).job_id
        for number in range(2)
    ]
    async with plane.database.connection() as connection:
        hour = await connection.fetchval("SELECT now() + interval '1 hour'")
    later = (await plane.coordination.enqueue(evolve(new_job("later"), run_at=hour))).job_id
    async with plane.database.connection() as connection:
        await connection.execute(
            "UPDATE coordination.outbox SET due_at = now() + interval '600 seconds' WHERE job_id <> $1", later
        )
    await throttles_of(plane).resume(ROLE, DEED, kind="kind")
    assert all([(await _outbox(plane, job_id))[1] <= 0 for job_id in mine])
    assert all([(await _outbox(plane, job_id))[1] > 500 for job_id in [*others, later]])


async def test_backlogs_and_pauses_are_listed(plane: Plane) -> None:
    """Goal: one look for an operator. Method: published, unpublished and running jobs; a pause with its reason."""
    for key in ("one", "two"):
        await plane.enqueue(key)
    await plane.publisher().publish_due()
    running = await plane.enqueue("three")
    await plane.begin(running, await plane.worker())
    throttles = throttles_of(plane)
    await throttles.pause(ROLE, DEED, kind="kind")
    (backlog,) = await throttles.backlog_by_role()
    assert (backlog.role, backlog.jobs, backlog.unpublished, backlog.processing) == (ROLE, 3, 1, 1)
    # What waits was there before what runs was begun.
    (ages,) = await plane.coordination.ages_by_role()
    assert ages.role == ROLE
    assert 0 < ages.running_seconds < ages.waiting_seconds < 60
    (pause,) = await throttles.list_pauses()
    assert (pause.role, pause.kind, pause.reason, pause.actor) == (ROLE, "kind", "the node lies", "ada")


async def test_a_worker_that_waits_for_a_slot_hears_of_the_pause(plane: Plane) -> None:
    """Goal: a pause that comes while every handler is busy holds from then on. Method: one slot, held by a handler; a
    second job is in the queue; pause, and let the handler go: no further fetch is made until the role is resumed."""
    held = trio.Event()

    async def handle(job: Job, attempt: Attempt) -> Outcome:
        await held.wait()
        return Completed()

    queue = Counting(plane)
    settings = evolve(SETTINGS, concurrency=1)
    narrow = Coordination(plane.database, lambda _: queue, CHAIN_ID, ENVIRONMENT, settings)  # type: ignore[arg-type,return-value]
    first, second = await plane.enqueue("first"), await plane.enqueue("second")
    async with heartbeats() as beats, at_work(Plane(plane.database, plane.queue_of, narrow), handle):

        async def begun() -> bool:
            return "processing" in {await plane.state(first), await plane.state(second)}

        await until(begun, seconds=10, what="the first job to begin")
        await throttles_of(plane).pause(ROLE, DEED)
        await beats.another()
        fetches = queue.fetches
        held.set()

        async def one_completed() -> bool:
            return (await plane.coordination.count_by_state()).get("completed") == 1

        await until(one_completed, seconds=10, what="the first job to complete")
        await throttles_of(plane).pause(ROLE, DEED)
        await beats.another()
        assert queue.fetches == fetches
        await throttles_of(plane).resume(ROLE, DEED)
        await _completes(plane, [first, second], seconds=5)


async def _claim_paused(tx: Connection, limit_key: str | None) -> None:
    """What a publisher does to the one row there is."""
    look_from = await tx.fetchval("SELECT '-infinity'::timestamptz")
    seconds = (10.0, float(PAUSED_SECONDS))
    if limit_key is None:
        [row] = await store.CLAIM_DUE(tx, CHAIN_ID, ENVIRONMENT, 10, *seconds, look_from)
    else:
        keys = [limit_key]
        await store.REGISTER_LIMITS(tx, CHAIN_ID, ENVIRONMENT, keys)
        await store.LOCK_LIMITS(tx, CHAIN_ID, ENVIRONMENT, keys)
        [row] = await store.CLAIM_LIMITED(tx, CHAIN_ID, ENVIRONMENT, keys, *seconds, 4, 10, look_from, look_from)
    assert row["is_paused"]


@pytest.mark.parametrize("limit_key", [None, "A"], ids=["no key", "a limit key"])
async def test_what_is_put_off_while_its_pause_ends_is_due_at_once(plane: Plane, limit_key: str | None) -> None:
    """Goal: no job sleeps through a resumption because a publisher was at it in that moment. Method: a claim that has
    seen the pause, and has not committed; resume meanwhile, and commit the claim once the resumption waits for it, or
    is through; the job is due."""
    job_id = (await plane.coordination.enqueue(evolve(new_job(), limit_key=limit_key))).job_id
    throttles = throttles_of(plane)
    await throttles.pause(ROLE, DEED)
    resumed = trio.Event()

    async def resume() -> None:
        await throttles.resume(ROLE, DEED)
        resumed.set()

    async def waits_or_is_through() -> bool:
        async with plane.database.connection() as connection:
            waiting = await connection.fetchval(
                "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
            )
        return bool(waiting) or resumed.is_set()

    async with trio.open_nursery() as tasks, plane.database.transaction() as tx:
        await _claim_paused(tx, limit_key)
        tasks.start_soon(resume)
        await until(waits_or_is_through, what="the resumption to wait, or to be through")
    is_published, seconds = await _outbox(plane, job_id)
    assert not is_published
    assert seconds <= 0
