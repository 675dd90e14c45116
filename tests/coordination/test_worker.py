"""The worker and the publisher on a real queue: what is enqueued is carried out, whatever is lost on the way."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from uuid import UUID

import trio
from attrs import define, field

from nursery.drain import Drain
from storage.records import Record, delivery_id
from tayho.coordination.types import Handler
from tayho.kernel.ids import new_id
from tayho.kernel.jobs import Attempt, Completed, Job, NotActionable, Outcome, Postponed
from tests.coordination.conftest import SETTINGS, Plane, new_job
from tests.services.launch import Launched
from tests.services.redis import ask
from tests.waiting import until


@define
class Running:
    """A worker at work, and the handle to stop it."""

    drain: Drain
    ended: trio.Event = field(factory=trio.Event)


@asynccontextmanager
async def at_work(plane: Plane, handler: Handler, *, drain_seconds: float = 5) -> AsyncIterator[Running]:
    """Publisher, stalled scan and worker, until the block ends; then a drain."""
    running = Running(Drain(seconds=drain_seconds))

    async def work() -> None:
        await plane.coordination.work({"kind": handler}, running.drain, "worker", "0")
        running.ended.set()

    async with trio.open_nursery() as tasks:
        tasks.start_soon(plane.coordination.publish, running.drain)
        tasks.start_soon(plane.coordination.listen)
        tasks.start_soon(plane.coordination.recover_stalled, running.drain)
        tasks.start_soon(work)
        yield running
        running.drain.request("the test is over")
        with trio.fail_after(drain_seconds + 10):
            await running.ended.wait()
        tasks.cancel_scope.cancel()


async def _reaches(plane: Plane, job_id: UUID, state: str, seconds: float = 15) -> None:
    async def reached() -> bool:
        return await plane.state(job_id) == state

    await until(reached, seconds=seconds, what=f"job to be {state}")


def _answering(outcome: Outcome) -> Handler:
    async def handle(job: Job, attempt: Attempt) -> Outcome:
        await trio.lowlevel.checkpoint()
        return outcome

    return handle


async def test_many_jobs_are_each_run_once(plane: Plane) -> None:
    """Goal: the ordinary way, at the worker's full width. Method: two hundred jobs; each handler call is counted."""
    runs: dict[UUID, int] = {}

    async def handle(job: Job, attempt: Attempt) -> Outcome:
        runs[job.job_id] = runs.get(job.job_id, 0) + 1
        await trio.lowlevel.checkpoint()
        return Completed({"n": job.request["n"]})

    job_ids = [await plane.enqueue(f"key-{number}", n=number) for number in range(200)]
    async with at_work(plane, handle):

        async def all_completed() -> bool:
            return (await plane.coordination.count_by_state()).get("completed") == 200

        await until(all_completed, seconds=30, what="two hundred completed jobs")
    assert runs == dict.fromkeys(job_ids, 1)
    assert (await plane.coordination.backlog()).rows == 0


async def test_outcomes_end_jobs_as_they_say(plane: Plane) -> None:
    """Goal: each outcome has its state. Method: a handler for each."""
    for outcome, state in ((Completed(1), "completed"), (NotActionable("no need"), "not_actionable")):
        job_id = await plane.enqueue(state)
        async with at_work(plane, _answering(outcome)):
            await _reaches(plane, job_id, state)


async def test_a_handler_that_raises_fails_its_own_attempt_alone(plane: Plane) -> None:
    """Goal: DLV-10: one job's bug is its own, and what it said is kept without harm. Method: a handler that raises a
    message with a NUL and a lone surrogate for one job and completes the other."""

    async def handle(job: Job, attempt: Attempt) -> Outcome:
        await trio.lowlevel.checkpoint()
        if job.idempotency_key == "bad" and attempt.attempt_number == 1:
            raise RuntimeError("boom \x00 \ud800 " + "x" * 10_000)
        return Completed()

    bad, good = await plane.enqueue("bad"), await plane.enqueue("good")
    async with at_work(plane, handle):
        await _reaches(plane, good, "completed")
        await _reaches(plane, bad, "completed")
    record = await plane.coordination.inspect(bad)
    assert record is not None
    assert [attempt.state for attempt in record.attempts] == ["failed", "completed"]
    assert isinstance(record.last_error, dict)
    assert record.last_error["type"] == "RuntimeError"
    assert len(str(record.last_error["message"])) <= 2_000


async def test_a_result_that_postgresql_cannot_hold_fails_the_attempt(plane: Plane) -> None:
    """Goal: a bad result never wedges a job in `processing`. Method: a NUL in the result, every time."""
    job_id = await plane.enqueue()
    async with at_work(plane, _answering(Completed("a\x00b"))):
        await _reaches(plane, job_id, "dead", seconds=30)


async def test_a_postponed_job_comes_back_and_spends_nothing(plane: Plane) -> None:
    """Goal: a soft return. Method: postpone twice, then complete."""

    async def handle(job: Job, attempt: Attempt) -> Outcome:
        await trio.lowlevel.checkpoint()
        return Completed() if attempt.attempt_number == 3 else Postponed("not yet", 0)

    job_id = await plane.enqueue()
    async with at_work(plane, handle):
        await _reaches(plane, job_id, "completed")
    record = await plane.coordination.inspect(job_id)
    assert record is not None
    assert record.attempts_spent == 1


async def test_flushall_in_the_middle_loses_nothing(plane: Plane, redis_server: Launched) -> None:
    """Goal: must-show 6 at the plane: PostgreSQL recreates what Redis lost. Method: hold handlers, empty Redis, let the
    handlers go on; every job completes, and the held ones' late ends are fenced or stand."""
    held = trio.Event()
    entered: set[UUID] = set()

    async def handle(job: Job, attempt: Attempt) -> Outcome:
        if attempt.attempt_number == 1 and len(entered) < SETTINGS.concurrency:
            entered.add(job.job_id)
            await held.wait()
        return Completed()

    job_ids = [await plane.enqueue(f"key-{number}") for number in range(40)]
    async with at_work(plane, handle):
        await until(lambda: len(entered) == SETTINGS.concurrency, seconds=15, what="handlers to be held")
        assert ask(redis_server.url, "FLUSHALL") == "+OK"
        held.set()
        for job_id in job_ids:
            await _reaches(plane, job_id, "completed", seconds=30)


async def test_a_lost_lock_cancels_the_handler_and_the_job_runs_again(plane: Plane, redis_server: Launched) -> None:
    """Goal: DLV-6. Method: a handler that would wait for ever; its record vanishes from Redis; it is cancelled within a
    lock, spends no attempt, and the next attempt completes."""
    cancelled = trio.Event()

    async def handle(job: Job, attempt: Attempt) -> Outcome:
        if attempt.attempt_number > 1:
            return Completed()
        try:
            await trio.sleep_forever()
        finally:
            cancelled.set()
        raise AssertionError("unreachable")

    job_id = await plane.enqueue()
    async with at_work(plane, handle):
        await _reaches(plane, job_id, "processing")
        assert ask(redis_server.url, "FLUSHALL") == "+OK"
        with trio.fail_after(2 * SETTINGS.lock_seconds):
            await cancelled.wait()
        await _reaches(plane, job_id, "completed", seconds=20)
    record = await plane.coordination.inspect(job_id)
    assert record is not None
    assert [attempt.state for attempt in record.attempts] == ["returned", "completed"]
    assert record.attempts_spent == 1


async def test_a_long_handler_keeps_its_lock(plane: Plane) -> None:
    """Goal: a handler may run for longer than the lock. Method: one that runs for two locks, with the stalled scan on;
    it is the only attempt."""

    async def handle(job: Job, attempt: Attempt) -> Outcome:
        await trio.sleep(2.2 * SETTINGS.lock_seconds)
        return Completed()

    job_id = await plane.enqueue()
    async with at_work(plane, handle):
        await _reaches(plane, job_id, "completed")
    record = await plane.coordination.inspect(job_id)
    assert record is not None
    assert len(record.attempts) == 1


async def test_the_drain_lets_handlers_finish_and_takes_nothing_new(plane: Plane) -> None:
    """Goal: OPS-6. Method: a handler in the middle when the drain is requested; a second job waits in the queue."""
    entered, go_on = trio.Event(), trio.Event()

    async def handle(job: Job, attempt: Attempt) -> Outcome:
        entered.set()
        await go_on.wait()
        return Completed()

    first = await plane.enqueue("first")
    async with at_work(plane, handle) as running:
        await entered.wait()
        running.drain.request("SIGTERM")
        second = await plane.enqueue("second")
        go_on.set()
        with trio.fail_after(5):
            await running.ended.wait()
    assert await plane.state(first) == "completed"
    assert await plane.state(second) == "queued"


async def test_a_drain_that_runs_out_returns_the_jobs_unspent(plane: Plane) -> None:
    """Goal: the hard deadline costs a job nothing. Method: a handler that never ends, a drain of a tenth of a
    second."""
    entered = trio.Event()

    async def handle(job: Job, attempt: Attempt) -> Outcome:
        entered.set()
        await trio.sleep_forever()
        raise AssertionError("unreachable")

    job_id = await plane.enqueue()
    async with at_work(plane, handle, drain_seconds=0.1) as running:
        await entered.wait()
        running.drain.request("SIGTERM")
        with trio.fail_after(5):
            await running.ended.wait()
    record = await plane.coordination.inspect(job_id)
    assert record is not None
    assert (record.state, record.attempts_spent) == ("retry", 0)
    assert [attempt.state for attempt in record.attempts] == ["returned"]


async def test_a_record_that_ended_while_its_job_did_not_gets_a_new_generation(plane: Plane) -> None:
    """Goal: DLV-4. Method: somebody else completes our record; the delivery check publishes the next generation."""
    job_id = await plane.enqueue()
    publisher = plane.publisher()
    await publisher.publish_due()
    (delivery,) = await plane.queue.fetch(1)
    await plane.queue.fail(delivery, "by somebody else", retry=False)
    await plane.make_due()
    await publisher.publish_due()
    (again,) = await plane.queue.fetch(1)
    assert again.delivery_id == delivery_id(job_id, 2)


async def test_publishing_twice_adds_once_and_a_lost_record_is_added_again(
    plane: Plane, redis_server: Launched
) -> None:
    """Goal: DLV-3, DLV-4. Method: publish, make due, publish again: one record; empty Redis, publish: it is back."""
    await plane.enqueue()
    publisher = plane.publisher()
    for _ in range(2):
        await publisher.publish_due()
        await plane.make_due()
    counts = await plane.queue.counts()
    assert counts["waiting"] + counts["prioritized"] == 1
    assert ask(redis_server.url, "FLUSHALL") == "+OK"
    await publisher.publish_due()
    (delivery,) = await plane.queue.fetch(1)
    assert delivery.delivery_id.endswith("-g1")


async def test_two_publishers_share_the_due_rows(plane: Plane) -> None:
    """Goal: SKIP LOCKED. Method: two publishers at once over three hundred rows; every row is published, none twice."""
    for number in range(0, 300, 100):
        await plane.coordination.enqueue_many([new_job(f"key-{one}") for one in range(number, number + 100)])
    async with trio.open_nursery() as publishers:
        for _ in range(2):
            publishers.start_soon(plane.publisher().publish_due)
    counts = await plane.queue.counts()
    assert counts["waiting"] + counts["prioritized"] == 300


async def test_a_record_that_names_no_job_of_ours_ends_without_harm(plane: Plane) -> None:
    """Goal: a foreign or late record never stops the queue. Method: add records of no job and of another shape beside a
    good job."""
    await plane.queue.publish_many([Record(delivery_id(new_id(), 1), "kind", {}, 1, 3, 0)])
    job_id = await plane.enqueue()
    async with at_work(plane, _answering(Completed())):
        await _reaches(plane, job_id, "completed")
        await until(_has_failed_record(plane), what="the foreign record to end")


def _has_failed_record(plane: Plane) -> Callable[[], Awaitable[bool]]:
    async def has() -> bool:
        return (await plane.queue.counts())["failed"] == 1

    return has
