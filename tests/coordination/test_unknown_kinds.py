"""A kind that one release knows and another does not is left to the one that knows it (DLV-10)."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import trio

from nursery.drain import Drain
from tayho.coordination import attempts
from tayho.coordination.types import Handler, NewJob
from tayho.coordination.workers import WorkerRow
from tayho.kernel.ids import new_id
from tayho.kernel.jobs import Attempt, Completed, Job, Outcome
from tests.coordination.conftest import CHAIN_ID, ENVIRONMENT, ROLE, Plane
from tests.coordination.workers_at_work import worker_at_work
from tests.waiting import until

JOBS = 10
# Two workers, ten jobs a kind, a second for each time that the wrong one was first; far below a minute.
BOUND_SECONDS = 25


def _telling(name: str, ran: list[tuple[str, str]]) -> Handler:
    async def handle(job: Job, attempt: Attempt) -> Outcome:
        await trio.lowlevel.checkpoint()
        ran.append((name, job.kind))
        return Completed()

    return handle


async def _ended(plane: Plane, count: int, seconds: float) -> None:
    async def all_ended() -> bool:
        return (await plane.coordination.count_by_state()).get("completed", 0) == count

    await until(all_ended, seconds=seconds, what=f"{count} jobs to be completed")


async def test_two_releases_side_by_side_each_run_what_they_know(plane: Plane, database_url: str) -> None:
    """Goal: a rolling release strands nothing and spends nothing. Method: two workers of one role, each with a kind
    that the other has not, and ten jobs of either; all end within the bound, each at its first attempt, run by the one
    that knows it."""
    jobs = [NewJob(kind, ROLE, f"{kind}-{number}", {}) for kind in ("old", "new") for number in range(JOBS)]
    ran: list[tuple[str, str]] = []
    drain = Drain(seconds=5)
    async with (
        worker_at_work(plane, database_url, {"old": _telling("older", ran)}, drain, publishes=True),
        worker_at_work(plane, database_url, {"new": _telling("newer", ran)}, Drain(seconds=5)),
    ):
        await until(lambda: _has_workers(plane, 2), what="both workers to be registered")
        enqueued = await plane.coordination.enqueue_many(jobs)
        await _ended(plane, 2 * JOBS, BOUND_SECONDS)
    assert sorted(ran) == sorted([("older", "old"), ("newer", "new")] * JOBS)
    for one in enqueued:
        record = await plane.coordination.inspect(one.job_id)
        assert record is not None
        assert (record.attempt_number, record.attempts_spent, record.generation) == (1, 1, 1)


async def _has_workers(plane: Plane, count: int) -> bool:
    return len(await plane.coordination.live_workers()) == count


async def test_a_kind_that_nobody_knows_waits_unharmed_for_a_release_that_does(
    plane: Plane, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Goal: never discarded, whoever comes first. Method: a worker without the kind declines the job, counted, until a
    worker with it starts; the job then ends at its first attempt. The longest wait is cut to a second here."""
    monkeypatch.setattr(attempts, "KNOWN_NOWHERE_SECONDS_MAX", 1.0)
    ran: list[tuple[str, str]] = []
    job_id = (await plane.coordination.enqueue(NewJob("new", ROLE, "key", {}))).job_id
    async with worker_at_work(plane, database_url, {"old": _telling("older", ran)}, Drain(seconds=5), publishes=True):

        async def is_put_back() -> bool:
            return (await plane.queue.counts())["delayed"] == 1

        await until(is_put_back, seconds=10, what="the job to be put back")
        assert await plane.state(job_id) == "queued"
        async with worker_at_work(plane, database_url, {"new": _telling("newer", ran)}, Drain(seconds=5)):
            await _ended(plane, 1, BOUND_SECONDS)
    record = await plane.coordination.inspect(job_id)
    assert record is not None
    assert (ran, record.attempt_number, record.attempts_spent) == ([("newer", "new")], 1, 1)


async def _wait_seconds(plane: Plane, *, waited_seconds: float) -> float:
    """How long PostgreSQL tells a worker that knows only `kind` to leave a job of the kind `new` alone."""
    enqueued = await plane.coordination.enqueue(NewJob("new", ROLE, new_id().hex, {}))
    async with plane.database.connection() as connection:
        await connection.execute(
            "UPDATE coordination.jobs SET run_at = now() - make_interval(secs => $2) WHERE job_id = $1",
            enqueued.job_id,
            waited_seconds,
        )
    begun = await plane.begin(enqueued.job_id, await plane.worker())
    assert begun.verdict == "unknown_kind"
    assert await plane.state(enqueued.job_id) == "queued"
    return begun.wait_seconds


async def test_what_nobody_knows_is_asked_for_ever_more_seldom(plane: Plane) -> None:
    """Goal: the idle cost of such a job is bounded: one look a minute. Method: what PostgreSQL answers for jobs that
    have waited for different times: as long again, from a second to a minute."""
    for waited_seconds, least, most in ((0, 1, 1.5), (10, 10, 11), (50, 50, 51), (3_600, 60, 60), (10**8, 60, 60)):
        assert least <= await _wait_seconds(plane, waited_seconds=waited_seconds) <= most


async def _register(
    plane: Plane,
    *,
    roles: Sequence[str] = (ROLE,),
    kinds: Sequence[str] = ("new",),
    chain_id: int = CHAIN_ID,
    environment: str = ENVIRONMENT,
) -> WorkerRow:
    row = WorkerRow(plane.database, new_id(), Drain(seconds=1))
    await row.register("elsewhere", chain_id, environment, list(roles), "2", kinds)
    return row


async def test_what_a_live_worker_knows_is_back_within_a_second(plane: Plane) -> None:
    """Goal: the bound of a rolling release. Method: workers that do not count (another chain, environment, role or
    kind, draining, ended, silent) change nothing; one that does brings the wait down to a second, however long the job
    has waited."""
    await _register(plane, chain_id=1)
    await _register(plane, environment="live")
    await _register(plane, roles=["payouts"])
    await _register(plane, kinds=["newer"])
    await (await _register(plane)).stop()
    draining, silent = await _register(plane), await _register(plane)
    async with plane.database.connection() as connection:
        await connection.execute(
            "UPDATE coordination.workers SET draining = true WHERE worker_id = $1", draining.worker_id
        )
        await connection.execute(
            "UPDATE coordination.workers SET heartbeat_at = now() - interval '31 seconds' WHERE worker_id = $1",
            silent.worker_id,
        )
    assert await _wait_seconds(plane, waited_seconds=3_600) == 60
    await silent.heartbeat([])
    assert await _wait_seconds(plane, waited_seconds=3_600) == 1
