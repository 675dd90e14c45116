"""Why is this job not running: asked of real services, one cause after the other (DLV-14)."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

import pytest
import trio
from attrs import evolve

from storage.delivery import DeliveryQueue
from storage.errors import StoreUnavailable
from storage.redis_client import open_redis
from tayho.coordination.attempts import End, Ends
from tayho.coordination.control.jobs import JobControl
from tayho.coordination.control.throttles import Throttles
from tayho.coordination.control.types import Deed, Limit
from tayho.coordination.explaining.facts import Explainer
from tayho.coordination.explaining.types import Cause, Explanation
from tayho.kernel.ids import new_id
from tests.coordination.conftest import CHAIN_ID, ENVIRONMENT, ROLE, SETTINGS, Plane, new_job
from tests.services.launch import Launched
from tests.services.redis import ask

DEED = Deed("ada", "a test")


async def explained(plane: Plane, job_id: UUID) -> Explanation:
    explainer = Explainer(plane.database, plane.queue_of, CHAIN_ID, ENVIRONMENT, fair_window=SETTINGS.fair_window)
    found = await explainer.explain(job_id)
    assert found is not None
    return found


async def causes(plane: Plane, job_id: UUID) -> list[Cause]:
    return [reason.code for reason in (await explained(plane, job_id)).causes]


async def now_in(plane: Plane, seconds: float):  # type: ignore[no-untyped-def]
    async with plane.database.connection() as connection:
        return await connection.fetchval("SELECT now() + make_interval(secs => $1)", seconds)


async def test_there_is_no_answer_for_no_job(plane: Plane) -> None:
    """Goal: an id of elsewhere is told as none. Method: a new id; a job of another environment."""
    explainer = Explainer(plane.database, plane.queue_of, CHAIN_ID, "another", fair_window=1)
    assert await explainer.explain(new_id()) is None
    assert await explainer.explain(await plane.enqueue()) is None


async def test_the_way_of_a_job_is_told_at_each_step(plane: Plane, redis_server: Launched) -> None:
    """Goal: the ordinary life, without and with a worker. Method: enqueue, publish, lose it, publish again, fetch,
    begin, fail, cancel; ask after each."""
    job_id = await plane.enqueue()
    assert await causes(plane, job_id) == [Cause.NO_WORKER, Cause.UNPUBLISHED]
    worker_id = await plane.worker()
    assert await causes(plane, job_id) == [Cause.UNPUBLISHED]
    await plane.publisher().publish_due()
    assert await causes(plane, job_id) == [Cause.WAITING_IN_QUEUE]
    assert ask(redis_server.url, "FLUSHALL") == "+OK"
    lost = await explained(plane, job_id)
    assert ([reason.code for reason in lost.causes], lost.next_at) == ([Cause.RECORD_GONE], lost.facts.outbox_due_at)
    await plane.make_due()
    await plane.publisher().publish_due()
    (delivery,) = await plane.queue.fetch(1)
    assert await causes(plane, job_id) == [Cause.ACTIVE_IN_QUEUE_UNBEGUN]
    begun = await plane.begin(job_id, worker_id, token=delivery.token)
    running = await explained(plane, job_id)
    assert [reason.code for reason in running.causes] == [Cause.RUNNING]
    assert running.facts.worker_instance_id == "by hand"
    assert begun.attempt is not None
    await Ends(plane.database, 3).end_all_if_current([End(begun.attempt, "failed", {"type": "Boom", "message": "b"})])
    await plane.queue.put_back(delivery, delay_seconds=60)
    delayed = await explained(plane, job_id)
    assert [reason.code for reason in delayed.causes] == [Cause.DELAYED_IN_QUEUE]
    assert "Boom" in delayed.summary
    await JobControl(plane.database, CHAIN_ID, ENVIRONMENT).cancel(job_id, DEED)
    ended = await explained(plane, job_id)
    assert [reason.code for reason in ended.causes] == [Cause.ENDED]
    assert "cancelled by ada" in ended.summary


async def test_a_record_that_ended_without_its_job_is_told(plane: Plane) -> None:
    """Goal: DLV-4 in words. Method: somebody else ends our record."""
    job_id = await plane.enqueue()
    await plane.publisher().publish_due()
    (delivery,) = await plane.queue.fetch(1)
    await plane.queue.fail(delivery, "by somebody else", retry=False)
    await plane.worker()
    assert await causes(plane, job_id) == [Cause.RECORD_ENDED]


async def test_pauses_are_told_with_who_and_why(plane: Plane) -> None:
    """Goal: role and kind apart. Method: pause both, resume one."""
    throttles = Throttles(plane.database, CHAIN_ID, ENVIRONMENT)
    job_id = await plane.enqueue()
    await plane.worker()
    await throttles.pause(ROLE, Deed("ada", "the node lies"))
    await throttles.pause(ROLE, Deed("bob", "a bug"), kind="kind")
    assert await causes(plane, job_id) == [Cause.PAUSED_ROLE, Cause.PAUSED_KIND, Cause.UNPUBLISHED]
    assert "ada: the node lies" in (await explained(plane, job_id)).summary
    await throttles.resume(ROLE, DEED)
    assert await causes(plane, job_id) == [Cause.PAUSED_KIND, Cause.UNPUBLISHED]


async def test_limits_are_told_with_their_numbers_and_times(plane: Plane) -> None:
    """Goal: at once and in time, apart; the fair window where no number was set. Method: one of each."""
    throttles = Throttles(plane.database, CHAIN_ID, ENVIRONMENT)
    await plane.worker()

    async def last_of(limit_key: str, count: int) -> UUID:
        jobs = [evolve(new_job(f"{limit_key}-{number:03}"), limit_key=limit_key) for number in range(count)]
        enqueued = await plane.coordination.enqueue_many(jobs)
        await plane.publisher().publish_due()
        return enqueued[-1].job_id

    await throttles.set_limit("busy", Limit(concurrent_max=2), DEED)
    assert await causes(plane, await last_of("busy", 3)) == [Cause.OVER_LIMIT_CONCURRENT]
    assert await causes(plane, await last_of("nobody's", SETTINGS.fair_window + 1)) == [Cause.OVER_LIMIT_CONCURRENT]
    await throttles.set_limit("often", Limit(rate_max=2, rate_seconds=120), DEED)
    found = await explained(plane, await last_of("often", 3))
    assert [reason.code for reason in found.causes] == [Cause.OVER_LIMIT_RATE]
    assert found.next_at is not None
    assert timedelta(seconds=50) < found.next_at - found.facts.now <= timedelta(seconds=60)


async def test_what_is_to_come_and_who_drains_is_told(plane: Plane) -> None:
    """Goal: the clock and the workers. Method: a job of tomorrow; a due one while the only worker drains."""
    worker_id = await plane.worker()
    later = (await plane.coordination.enqueue(evolve(new_job("later"), run_at=await now_in(plane, 3_600)))).job_id
    found = await explained(plane, later)
    assert ([reason.code for reason in found.causes], found.next_at) == ([Cause.NOT_DUE], found.facts.run_at)
    job_id = await plane.enqueue()
    async with plane.database.connection() as connection:
        await connection.execute("UPDATE coordination.workers SET draining = true WHERE worker_id = $1", worker_id)
    assert await causes(plane, job_id) == [Cause.WORKERS_DRAINING, Cause.UNPUBLISHED]


async def test_a_silent_worker_and_an_unanswered_request_are_told(plane: Plane) -> None:
    """Goal: who holds a job and is gone. Method: the attempt's worker has not beaten for a minute; then its job is to
    be cancelled; then the worker has stopped."""
    job_id, worker_id = await plane.enqueue(), await plane.worker()
    await plane.begin(job_id, worker_id)
    async with plane.database.connection() as connection:
        await connection.execute("UPDATE coordination.workers SET heartbeat_at = now() - interval '1 minute'")
    assert await causes(plane, job_id) == [Cause.RUNNING_SILENT_WORKER, Cause.NO_WORKER]
    await JobControl(plane.database, CHAIN_ID, ENVIRONMENT).cancel(job_id, DEED)
    assert (await causes(plane, job_id))[:2] == [Cause.CANCEL_REQUESTED, Cause.RUNNING_SILENT_WORKER]
    async with plane.database.connection() as connection:
        await connection.execute("UPDATE coordination.workers SET heartbeat_at = now(), stopped_at = now()")
    assert "has stopped" in (await explained(plane, job_id)).causes[1].sentence


async def test_what_waits_for_the_chain_is_told(plane: Plane) -> None:
    """Goal: a job that holds no worker is not called stuck. Method: hold for a lineage, confirm."""
    job_id = await plane.enqueue()
    begun = await plane.begin(job_id, await plane.worker())
    assert begun.attempt is not None
    async with plane.database.transaction() as tx:
        await plane.coordination.hold_for_lineage_if_current(tx, [begun.attempt])
        await plane.coordination.confirm_if_current(tx, [begun.attempt])
    assert await causes(plane, job_id) == [Cause.CONFIRMING]


async def test_without_redis_the_rest_is_told(plane: Plane) -> None:
    """Goal: half an answer is one, and says which half. Method: the record of a published job is asked of an address
    where nobody listens."""
    job_id = await plane.enqueue()
    await plane.publisher().publish_due()
    await plane.worker()
    async with open_redis("redis://:hunter2@127.0.0.1:9/0") as away:

        def queue_of(role: str) -> DeliveryQueue:
            return DeliveryQueue(away, prefix="{tayho}", name=role, lock_seconds=2)

        explainer = Explainer(plane.database, queue_of, CHAIN_ID, ENVIRONMENT, fair_window=SETTINGS.fair_window)
        with trio.fail_after(10):
            found = await explainer.explain(job_id)
    assert found is not None
    assert [reason.code for reason in found.causes] == [Cause.REDIS_UNREACHABLE]
    assert found.record_state is None
    assert "hunter2" not in repr(found)


async def test_without_postgresql_there_is_no_answer(plane: Plane, monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: the caller hears that the store is away, not that there is no such job. Method: a pool that has no
    connection to give."""

    def away(*_: object) -> object:
        raise StoreUnavailable("no connection")

    explainer = Explainer(plane.database, plane.queue_of, CHAIN_ID, ENVIRONMENT, fair_window=1)
    monkeypatch.setattr(type(plane.database), "connection", away)
    with pytest.raises(StoreUnavailable):
        await explainer.explain(new_id())
