"""What was before the play begins: jobs that others left behind. It goes behind the scenes, where nothing is lost."""

from datetime import datetime, timedelta
from uuid import UUID

from attrs import evolve

from nursery.drain import Drain
from storage.records import Delivery, Record, delivery_id
from tayho.coordination.attempts import begin
from tayho.coordination.outbox import Publisher
from tayho.coordination.schedule_declarations import document_of
from tayho.coordination.workers import WorkerRow
from tayho.kernel.ids import new_id
from tests.sweep.parts import KIND, SCHEDULED, part
from tests.sweep.stage import CHAIN_ID, ENVIRONMENT, ROLE, SETTINGS, Plane, Stage

EARLY_SECONDS = 0.4
AGE = timedelta(minutes=2)


async def prologue(stage: Stage) -> None:
    """A delivery whose holder vanished, one that ended in the queue alone, one too early; an aged and a spent job; a
    schedule that is behind."""
    plane = stage.back
    dead = WorkerRow(plane.database, new_id(), Drain(seconds=1))
    await dead.register("vanished", CHAIN_ID, ENVIRONMENT, [ROLE], "0")
    await dead.stop()

    vanished = (await plane.coordination.enqueue(part("held by one who vanished"))).job_id
    failed = (await plane.coordination.enqueue(part("failed in the queue alone"))).job_id
    await _publish(plane)
    deliveries = {each.delivery_id: each for each in await stage.vanishing.fetch(2)}
    await plane.queue.fail(deliveries[delivery_id(failed, 1)], "by somebody else", retry=False)
    await _begin(plane, deliveries[delivery_id(vanished, 1)], dead.worker_id)
    # The first of the two scans that a vanished holder takes; the play makes the second.
    assert await stage.vanishing.recover_stalled() == []
    await _leave_aged(plane)
    await _make_due(plane, failed)
    await _deliver_early(plane)
    await _leave_schedule_behind(plane)

    spent = (await plane.coordination.enqueue(part("spent"))).job_id
    for _ in range(SETTINGS.attempts_max):
        await _begin(plane, _made_up(spent), dead.worker_id)


async def _publish(plane: Plane) -> None:
    await Publisher(plane.database, lambda _: plane.queue, CHAIN_ID, ENVIRONMENT, SETTINGS).publish_due()


async def _deliver_early(plane: Plane) -> None:
    later = evolve(part("delivered too early"), run_at=await _in(plane, timedelta(seconds=EARLY_SECONDS)))
    early = (await plane.coordination.enqueue(later)).job_id
    await plane.queue.publish_many([Record(delivery_id(early, 1), KIND, {}, later.priority, SETTINGS.attempts_max, 1)])


async def _leave_aged(plane: Plane) -> None:
    """A job that has waited in the queue for so long that its priority is another by now."""
    aged = evolve(part("aged"), run_at=await _in(plane, -AGE))
    job_id = (await plane.coordination.enqueue(aged)).job_id
    await _publish(plane)
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


async def _begin(plane: Plane, delivery: Delivery, worker_id: UUID) -> None:
    (begun,) = await begin(
        plane.database,
        plane.database,
        [delivery],
        worker_id=worker_id,
        attempts_max=SETTINGS.attempts_max,
        chain_id=CHAIN_ID,
        environment=ENVIRONMENT,
        kinds=[KIND],
    )
    assert begun.verdict == "begun"
