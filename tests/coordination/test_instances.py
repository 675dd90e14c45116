"""A process is drained from outside and undrained, and no other is taken for it (OPS-6)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import partial
from uuid import UUID

import pytest
import trio
from attrs import evolve

from nursery.drain import Drain
from tayho.coordination.control.errors import (
    AnotherProcess,
    InstanceAmbiguous,
    InstanceGone,
    InstanceRefused,
    InstanceStopping,
    InstanceUnknown,
)
from tayho.coordination.control.instance_rules import SILENT_SECONDS, InstanceSeen, to_drain, to_undrain
from tayho.coordination.control.instances import Instances
from tayho.coordination.control.types import Deed
from tayho.coordination.workers import WorkerRow
from tayho.kernel.ids import new_id
from tayho.kernel.jobs import Attempt, Completed, Job, Outcome
from tests.coordination.conftest import CHAIN_ID, ENVIRONMENT, ROLE, Plane
from tests.coordination.test_control_jobs import actions
from tests.coordination.test_worker import at_work
from tests.coordination.workers_at_work import worker_at_work
from tests.waiting import until

DEED = Deed("ada", "to look at it")
BORN = datetime(2026, 1, 1, tzinfo=UTC)
LIVING = InstanceSeen(UUID(int=1), "web-1", (ROLE,), "host", 7, BORN, False, None, None, None, None, 1.0)
DRAINED = evolve(LIVING, draining=True, drain_asked_at=BORN)
STOPPING = evolve(LIVING, draining=True, stopping_at=BORN)
# What a drained process leaves behind: in order, or killed.
ENDED = evolve(DRAINED, worker_id=UUID(int=2), stopped_at=BORN)
KILLED = evolve(DRAINED, worker_id=UUID(int=3), heartbeat_age_seconds=SILENT_SECONDS + 1.0)
SIBLING = evolve(LIVING, worker_id=UUID(int=4), started_at=BORN + timedelta(hours=1))


@pytest.mark.parametrize(
    ("found", "drains", "undrains"),
    [
        ([], InstanceUnknown, InstanceUnknown),
        ([LIVING], LIVING, LIVING),
        ([DRAINED], DRAINED, DRAINED),
        ([STOPPING], STOPPING, InstanceStopping),
        ([evolve(DRAINED, stopping_at=BORN)], evolve(DRAINED, stopping_at=BORN), InstanceStopping),
        ([ENDED], InstanceGone, InstanceGone),
        ([KILLED], InstanceGone, InstanceGone),
        # Restarted under the same name: it was never drained.
        ([SIBLING, ENDED], SIBLING, AnotherProcess),
        ([SIBLING, KILLED], SIBLING, AnotherProcess),
        # Restarted, and drained anew: it is the one.
        ([evolve(SIBLING, draining=True, drain_asked_at=BORN), ENDED], UUID(int=4), UUID(int=4)),
        # The other one ended without ever being drained.
        ([SIBLING, evolve(ENDED, drain_asked_at=None)], SIBLING, SIBLING),
        ([SIBLING, DRAINED], InstanceAmbiguous, InstanceAmbiguous),
    ],
)
def test_whom_an_operator_means(found: list[InstanceSeen], drains: object, undrains: object) -> None:
    """Goal: an act reaches the process that was meant, or none. Method: every constellation of processes that ever ran
    under a name."""
    for decide, expected in ((to_drain, drains), (to_undrain, undrains)):
        if isinstance(expected, type) and issubclass(expected, InstanceRefused):
            with pytest.raises(expected):
                decide("web-1", found)
        else:
            meant = decide("web-1", found)
            assert expected in (meant, meant.worker_id)


def _instances(plane: Plane) -> Instances:
    return Instances(plane.database, CHAIN_ID, ENVIRONMENT)


class Gate:
    """A handler that waits until the test lets it end, and counts."""

    def __init__(self) -> None:
        self.opened = trio.Event()
        self.began: list[UUID] = []

    async def handle(self, job: Job, attempt: Attempt) -> Outcome:
        self.began.append(job.job_id)
        await self.opened.wait()
        return Completed()


async def test_a_drained_process_finishes_lives_on_and_its_sibling_goes_on(plane: Plane, database_url: str) -> None:
    """Goal: OPS-6 from outside, with nothing lost. Method: a process runs a job; it is drained: not through while the
    handler runs, through when it ends; jobs that come go to a sibling alone; undrained, it takes work again without
    having been restarted."""
    own, other, drain = Gate(), Gate(), Drain(seconds=30)
    other.opened.set()
    async with at_work(plane, own.handle, drain_seconds=30) as running:
        first = await plane.enqueue("first")
        await until(lambda: own.began == [first], what="the job to begin")
        (live,) = await plane.coordination.live_workers()
        drained = await _instances(plane).drain("worker", DEED)
        assert (drained.worker_id, drained.changed) == (live.worker_id, True)
        await until(lambda: plane.coordination.is_drained, what="the process to hear of it")
        standing = await _instances(plane).await_drained(drained, 0)
        assert (standing.running, standing.is_through) == (1, False)
        async with worker_at_work(plane, database_url, {"kind": other.handle}, drain):
            later = [await plane.enqueue(f"later-{number}") for number in range(5)]
            await until(lambda: sorted(other.began) == sorted(later), seconds=15, what="the sibling to run them all")
        own.opened.set()
        standing = await _instances(plane).await_drained(drained, 15)
        assert standing.is_through
        assert not running.ended.is_set(), "a drained process lives on"
        assert (await _instances(plane).undrain(str(live.worker_id), DEED)).changed
        last = await plane.enqueue("last")
        await until(lambda: own.began == [first, last], seconds=15, what="the process to work again")
        await until(partial(_is_completed, plane, last), seconds=15, what="its job to complete")
    assert [action for action, *_ in await actions(plane)] == ["drain", "undrain"]
    async with plane.database.connection() as connection:
        assert await connection.fetchval("SELECT max(attempt_number) FROM coordination.jobs") == 1


async def _is_completed(plane: Plane, job_id: UUID) -> bool:
    return await plane.state(job_id) == "completed"


async def test_a_drain_from_outside_cuts_off_what_does_not_end(plane: Plane) -> None:
    """Goal: it is bounded by DRAIN_SECONDS, as one by a signal. Method: a handler that never ends; the process says
    that it is through, and the job is back with its attempt unspent."""
    gate = Gate()
    async with at_work(plane, gate.handle, drain_seconds=0.2):
        job_id = await plane.enqueue()
        await until(lambda: gate.began == [job_id], what="the job to begin")
        drained = await _instances(plane).drain("worker", DEED)
        assert (await _instances(plane).await_drained(drained, 15)).is_through
        record = await plane.coordination.inspect(job_id)
        assert record is not None
        assert (record.state, record.attempts_spent) == ("retry", 0)


async def test_nobody_undrains_a_process_that_was_told_to_end(plane: Plane) -> None:
    """Goal: a signal is not undone, and who tries hears of it. Method: a process with a handler is drained from
    outside, then told to end; before it has ended the undrain is refused, and after."""
    gate = Gate()
    async with at_work(plane, gate.handle, drain_seconds=30) as running:
        await plane.enqueue()
        await until(lambda: gate.began, what="the job to begin")
        await _instances(plane).drain("worker", DEED)
        running.drain.request("a signal")

        async def is_stopping() -> bool:
            async with plane.database.connection() as connection:
                return await connection.fetchval("SELECT stopping_at IS NOT NULL FROM coordination.workers")

        await until(is_stopping, what="the process to tell that it ends")
        with pytest.raises(InstanceStopping):
            await _instances(plane).undrain("worker", DEED)
        gate.opened.set()
    with pytest.raises(InstanceGone):
        await _instances(plane).undrain("worker", DEED)
    assert [action for action, *_ in await actions(plane)] == ["drain"]


async def test_a_restarted_process_is_not_the_one_that_was_drained(plane: Plane) -> None:
    """Goal: the race of an undrain with a restart under the same INSTANCE_ID. Method: one registers, is drained and
    ends; another registers under its name; the undrain is refused, and changes no row."""
    rows = [WorkerRow(plane.database, new_id(), Drain(seconds=1)) for _ in range(2)]
    await rows[0].register("web-1", CHAIN_ID, ENVIRONMENT, [ROLE], "0")
    assert (await _instances(plane).drain("web-1", DEED)).worker_id == rows[0].worker_id
    assert (await rows[0].heartbeat([])).is_drained
    await rows[0].stop()
    await rows[1].register("web-1", CHAIN_ID, ENVIRONMENT, [ROLE], "0")
    with pytest.raises(AnotherProcess, match=str(rows[1].worker_id)):
        await _instances(plane).undrain("web-1", DEED)
    assert not (await rows[1].heartbeat([])).is_drained
    with pytest.raises(InstanceGone):
        await _instances(plane).undrain(str(rows[0].worker_id), DEED)
