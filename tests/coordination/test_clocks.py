"""BullMQ keeps delays on the clocks of the processes; what may run, and when, is PostgreSQL's clock alone (DLV-11)."""

from __future__ import annotations

from datetime import timedelta

import trio

from storage.records import RecordState, delivery_id
from tayho.coordination.types import JobRecord
from tayho.kernel.jobs import Attempt, Completed, Job, Outcome
from tests.coordination.conftest import Plane
from tests.coordination.test_worker import at_work
from tests.waiting import until

HOUR_SECONDS = 3_600


async def _record(plane: Plane) -> JobRecord:
    (line,) = await plane.coordination.list_recent()
    record = await plane.coordination.inspect(line.job_id)
    assert record is not None
    return record


async def _delayed_by(plane: Plane, seconds: float) -> str:
    """Publish the one job and put its delivery back for so long, as a worker does whose clock is wrong by as much."""
    await plane.publisher().publish_due()
    (delivery,) = await plane.queue.fetch(1)
    await plane.queue.put_back(delivery, delay_seconds=seconds)
    return delivery.delivery_id


async def test_a_record_delayed_by_a_clock_an_hour_ahead_is_handed_out_at_the_next_check(plane: Plane) -> None:
    """Goal: no clock makes a job an hour late. Method: a delivery that is delayed for an hour, of a job that is due;
    the delivery check; it is there."""
    await plane.enqueue()
    late = await _delayed_by(plane, HOUR_SECONDS)
    assert await plane.queue.states([late]) == [RecordState.DELAYED]
    await plane.make_due()
    await plane.publisher().publish_due()
    (again,) = await plane.queue.fetch(1)
    assert again.delivery_id == late


async def test_a_record_of_a_job_that_is_not_due_stays_delayed(plane: Plane) -> None:
    """Goal: the delivery check hastens nothing. Method: as above, with a job that PostgreSQL holds back."""
    job_id = await plane.enqueue()
    await _delayed_by(plane, HOUR_SECONDS)
    async with plane.database.connection() as connection:
        await connection.execute(
            "UPDATE coordination.jobs SET run_at = now() + interval '1 minute' WHERE job_id = $1", job_id
        )
    await plane.make_due()
    await plane.publisher().publish_due()
    assert await plane.queue.states([delivery_id(job_id, 1)]) == [RecordState.DELAYED]


async def test_a_retry_that_a_fast_clock_hands_out_at_once_is_not_begun_before_its_wait(plane: Plane) -> None:
    """Goal: a clock that is ahead cannot burn a job's budget without a pause. Method: a handler that fails once; its
    delayed record is handed out at once, again and again; the next attempt still keeps half of the wait of a second,
    the least that BullMQ chooses."""

    async def handle(job: Job, attempt: Attempt) -> Outcome:
        await trio.lowlevel.checkpoint()
        if attempt.attempt_number == 1:
            raise ZeroDivisionError
        return Completed()

    job_id = await plane.enqueue()

    async def completed() -> bool:
        await plane.queue.promote_many([delivery_id(job_id, 1)])
        return await plane.state(job_id) == "completed"

    async with at_work(plane, handle):
        await until(completed, seconds=15, what="the job to complete")
    first, second = (await _record(plane)).attempts
    assert first.ended_at is not None
    # The statement that ended the first looked at the clock more than once.
    assert second.started_at - first.ended_at >= timedelta(seconds=0.45)
