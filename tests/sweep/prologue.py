"""What was before the play begins: jobs that others left behind. It goes behind the scenes, where nothing is lost."""

from datetime import datetime, timedelta
from uuid import UUID

from attrs import evolve

from nursery.drain import Drain
from storage.records import Delivery, Record, delivery_id
from tayho.coordination.attempts import End, Ends, begin
from tayho.coordination.jobs import enqueue
from tayho.coordination.outbox import Publisher
from tayho.coordination.schedule_declarations import document_of
from tayho.coordination.workers import WorkerRow
from tayho.kernel.ids import new_id
from tayho.kernel.jobs import Attempt
from tests.sweep.parts import KIND, REPLAYED_PARTS, SCHEDULED, part
from tests.sweep.stage import CHAIN_ID, ENVIRONMENT, PAST, ROLE, SETTINGS, Plane, Stage

EARLY_SECONDS = 0.4
AGE = timedelta(minutes=2)
# How far ahead the clock was that delayed a record.
AHEAD_SECONDS = 3_600


async def prologue(stage: Stage) -> None:
    """A delivery whose holder vanished, one that ended in the queue alone, one too early, one that a wrong clock holds
    back; an aged, a spent and some dead jobs; a schedule that is behind; and what retention may take."""
    plane = stage.back
    dead = WorkerRow(plane.database, new_id(), Drain(seconds=1))
    await dead.register("vanished", CHAIN_ID, ENVIRONMENT, [ROLE], "0")
    await dead.stop()
    delayed = await _delay(plane)

    vanished = (await plane.coordination.enqueue(part("held by one who vanished"))).job_id
    failed = (await plane.coordination.enqueue(part("failed in the queue alone"))).job_id
    await _publish(plane)
    deliveries = {each.delivery_id: each for each in await stage.vanishing.fetch(2)}
    await plane.queue.fail(deliveries[delivery_id(failed, 1)], "by somebody else", retry=False)
    await _begin(plane, deliveries[delivery_id(vanished, 1)], dead.worker_id)
    # The first of the two scans that a vanished holder takes; the play makes the second.
    assert await stage.vanishing.recover_stalled() == []
    await _leave_aged(plane)
    for due in (failed, delayed):
        await _make_due(plane, due)
    await _deliver_early(plane)
    await _leave_schedule_behind(plane)

    spent = (await plane.coordination.enqueue(part("spent"))).job_id
    for _ in range(SETTINGS.attempts_max):
        await _begin(plane, _made_up(spent), dead.worker_id)
    for name in REPLAYED_PARTS:
        await _leave_dead(plane, name, dead.worker_id)
    await _leave_past(plane)


async def _publish(plane: Plane) -> None:
    await Publisher(plane.database, lambda _: plane.queue, CHAIN_ID, ENVIRONMENT, SETTINGS).publish_due()


async def _delay(plane: Plane) -> UUID:
    """A job whose record BullMQ holds back, although PostgreSQL calls it due."""
    job_id = (await plane.coordination.enqueue(part("delayed by a wrong clock"))).job_id
    await _publish(plane)
    [delivery] = await plane.queue.fetch(1)
    await plane.queue.put_back(delivery, delay_seconds=AHEAD_SECONDS)
    return job_id


async def _leave_dead(plane: Plane, name: str, worker_id: UUID) -> None:
    job_id = (await plane.coordination.enqueue(part(name))).job_id
    end = End(await _begin(plane, _made_up(job_id), worker_id), "failed", {"type": "RuntimeError", "message": "broken"})
    [ended] = await Ends(plane.database, attempts_max=1).end_all_if_current([end])
    assert not isinstance(ended, Exception)
    assert ended.state == "dead"


async def _leave_past(plane: Plane) -> None:
    """A job that has ended, and its worker, in an environment where that is long enough ago."""
    worker = WorkerRow(plane.database, new_id(), Drain(seconds=1))
    await worker.register("past", CHAIN_ID, PAST, [ROLE], "0")
    [enqueued] = await enqueue(plane.database, CHAIN_ID, PAST, [part("past")])
    attempt = await _begin(plane, _made_up(enqueued.job_id), worker.worker_id, PAST)
    await Ends(plane.database, attempts_max=1).end_all_if_current([End(attempt, "completed")])
    await worker.stop()


async def _deliver_early(plane: Plane) -> None:
    later = evolve(part("delivered too early"), run_at=await _in(plane, timedelta(seconds=EARLY_SECONDS)))
    early = (await plane.coordination.enqueue(later)).job_id
    await plane.queue.publish_many([Record(delivery_id(early, 1), KIND, {}, later.priority, SETTINGS.attempts_max, 1)])


async def _leave_aged(plane: Plane) -> None:
    """A job that has waited in the queue for so long that its priority is another by now."""
    job_id = (await plane.coordination.enqueue(part("aged"))).job_id
    await _publish(plane)
    async with plane.database.connection() as connection:
        await connection.execute(
            "UPDATE coordination.jobs SET run_at = run_at - $2::interval WHERE job_id = $1", job_id, AGE
        )
    await _make_due(plane, job_id)


async def _leave_schedule_behind(plane: Plane) -> None:
    async with plane.database.connection() as connection:
        await connection.execute(
            "INSERT INTO coordination.schedules (chain_id, environment, name, declaration, decided_until)"
            " VALUES ($1, $2, $3, $4, now() - interval '10 years')",
            CHAIN_ID,
            ENVIRONMENT,
            SCHEDULED.schedule.name,
            document_of(SCHEDULED),
        )


async def _in(plane: Plane, time: timedelta) -> datetime:
    """A moment on PostgreSQL's clock."""
    async with plane.database.connection() as connection:
        return await connection.fetchval("SELECT now() + $1::interval", time)


async def _make_due(plane: Plane, job_id: UUID) -> None:
    async with plane.database.connection() as connection:
        await connection.execute("UPDATE coordination.outbox SET due_at = now() WHERE job_id = $1", job_id)


def _made_up(job_id: UUID) -> Delivery:
    """A delivery that Redis knows nothing of any more."""
    return Delivery(delivery_id(job_id, 1), new_id().hex, KIND, {}, 0, SETTINGS.attempts_max, 0, None, None, {})


async def _begin(plane: Plane, delivery: Delivery, worker_id: UUID, environment: str = ENVIRONMENT) -> Attempt:
    (begun,) = await begin(
        plane.database,
        plane.database,
        [delivery],
        worker_id=worker_id,
        attempts_max=SETTINGS.attempts_max,
        chain_id=CHAIN_ID,
        environment=environment,
        kinds=[KIND],
    )
    assert begun.attempt is not None, begun.verdict
    return begun.attempt
