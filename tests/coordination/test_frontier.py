"""The publisher does not read again what it has seen to be gone, and still finds whatever comes to lie there."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from uuid import UUID

import pytest
import trio
from attrs import evolve

from storage.database import Connection, Row
from storage.records import RecordState, delivery_id
from tayho.coordination import store
from tayho.coordination.frontier import BEHIND_SECONDS, BEHIND_SECONDS_MAX, MARGIN, Frontier, pause_seconds
from tayho.coordination.outbox import Publisher
from tayho.coordination.types import NewJob
from tayho.kernel.jobs import Attempt, Completed, Job, Outcome
from tests.coordination.conftest import CHAIN_ID, ENVIRONMENT, SETTINGS, Plane, new_job
from tests.coordination.test_plans import plan_steps
from tests.coordination.test_worker import at_work
from tests.services.ballast import held_snapshot
from tests.waiting import until

NOW = datetime(2026, 1, 1, tzinfo=UTC)
LONG_AGO = timedelta(hours=1)
DUE = store.DUE.query.sql


# As a row whose transaction was open for so long.
MAKE_OVERDUE = """
UPDATE coordination.outbox SET due_at = due_at - interval '1 hour', rank_at = rank_at - interval '1 hour'
WHERE job_id = ANY ($1::uuid[]) AND published_at IS NULL
"""


async def overdue(plane: Plane, jobs: Sequence[NewJob]) -> list[UUID]:
    """Jobs that are committed now, and due since an hour."""
    async with plane.database.transaction() as tx:
        job_ids = [one.job_id for one in await plane.coordination.enqueue_many(jobs, tx=tx)]
        await tx.execute(MAKE_OVERDUE, job_ids)
    return job_ids


def test_a_frontier_moves_and_keeps_its_margin() -> None:
    """Goal: looks begin where the last one ended, less what a commit may be late. Method: move it forth and, as after a
    clock that went back, back."""
    frontier = Frontier()
    assert frontier.begin() is None
    frontier.move(NOW)
    assert frontier.begin() == NOW - MARGIN
    assert frontier.is_ahead_of(NOW - LONG_AGO)
    assert not frontier.is_ahead_of(NOW - MARGIN)
    assert not frontier.is_ahead_of(None)
    frontier.move(NOW - LONG_AGO)
    assert frontier.begin() == NOW - LONG_AGO - MARGIN


def test_a_wish_for_the_whole_survives_the_look_that_is_under_way() -> None:
    """Goal: what was found behind the frontier is not forgotten. Method: the wish comes between the beginning of a look
    and its end; the next look begins at the beginning, and only that one."""
    frontier = Frontier(NOW)
    assert frontier.begin() is not None
    frontier.look_at_the_whole()
    frontier.move(NOW)
    assert frontier.begin() is None
    frontier.move(NOW)
    assert frontier.begin() == NOW - MARGIN


def test_a_dear_look_is_made_seldom_and_never_too_seldom() -> None:
    """Goal: the look behind takes a small share of the time, and a bound holds. Method: cheap, dear and very dear."""
    assert pause_seconds(0.001) == BEHIND_SECONDS
    assert pause_seconds(0.1) == pytest.approx(5)
    assert pause_seconds(60) == BEHIND_SECONDS_MAX


@pytest.mark.parametrize("limit_key", [None, "tenant"])
async def test_a_row_that_is_committed_behind_the_frontier_is_found_by_the_look_behind(
    plane: Plane, limit_key: str | None
) -> None:
    """Goal: a job is never overlooked because its row came late. Method: a publisher that has looked; then a row that
    was due before; only the look behind finds it, and what it says is true once."""
    publisher = plane.publisher()
    assert not await publisher.publish_due()
    (job_id,) = await overdue(plane, [evolve(new_job("late"), limit_key=limit_key)])
    await publisher.publish_due()
    assert await plane.queue.states([delivery_id(job_id, 1)]) == [RecordState.MISSING]
    assert await publisher.look_behind()
    await publisher.publish_due()
    assert await plane.queue.states([delivery_id(job_id, 1)]) == [RecordState.WAITING]
    assert not await plane.publisher().look_behind()


async def test_a_running_publisher_finds_what_came_late(plane: Plane) -> None:
    """Goal: the look behind is made by whoever publishes. Method: a process at work, then two jobs that are due since
    an hour, one of them under a limit; both are completed in seconds."""

    async def handle(job: Job, attempt: Attempt) -> Outcome:
        await trio.lowlevel.checkpoint()
        return Completed()

    async with at_work(plane, handle):
        first = await plane.enqueue("warm")
        await until(partial(is_completed, plane, first), seconds=10)
        for job_id in await overdue(plane, [new_job("late"), evolve(new_job("limited"), limit_key="tenant")]):
            await until(partial(is_completed, plane, job_id), seconds=30, what="a late job to be completed")


async def is_completed(plane: Plane, job_id: UUID) -> bool:
    return await plane.state(job_id) == "completed"


async def test_a_backlog_longer_than_a_batch_is_published_whole(plane: Plane, monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: the frontier passes no row that was not claimed. Method: batches of three over eleven rows of one due time
    and of many."""
    monkeypatch.setattr("tayho.coordination.outbox.CLAIM_MAX", 3)
    at = datetime.now(UTC) - LONG_AGO
    jobs = [evolve(new_job(f"key-{n}"), run_at=at + timedelta(seconds=n // 5)) for n in range(11)]
    job_ids = [one.job_id for one in await plane.coordination.enqueue_many(jobs)]
    publisher = plane.publisher()
    rounds = 1
    while await publisher.publish_due():
        rounds += 1
    assert rounds == 4
    assert await plane.queue.states([delivery_id(one, 1) for one in job_ids]) == [RecordState.WAITING] * 11


async def test_beside_a_held_snapshot_a_look_reads_no_dead_rows(
    plane: Plane, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Goal: an old snapshot, which keeps every dead row in every index, makes no poll slower. Method: a thousand rows
    are published while a snapshot is held; what the next poll asks is explained, and beside it a look at the whole."""
    asked: list[tuple[object, ...]] = []

    async def due(connection: Connection, *arguments: object) -> Row | None:
        asked.append(arguments)
        return await original(connection, *arguments)

    original = store.DUE
    monkeypatch.setattr(store, "DUE", due)
    settings = evolve(SETTINGS, reconcile_seconds=3600)
    publisher = Publisher(plane.database, plane.queue_of, CHAIN_ID, ENVIRONMENT, settings)
    async with held_snapshot(database_url):
        # What was enqueued would else be dead beside the frontier, and be read for a moment.
        run_at = datetime.now(UTC) + LONG_AGO / 2
        await overdue(plane, [evolve(new_job(f"key-{number}"), run_at=run_at) for number in range(1_000)])
        while await publisher.publish_due():
            pass
        await publisher.publish_due()
        _, _, unlimited_from, limited_from = asked[-1]
        async with plane.database.connection() as connection:
            assert await rows_looked_at(connection, unlimited_from, limited_from) == 0
            assert await rows_looked_at(connection, None, None) == 1_000


async def rows_looked_at(connection: Connection, *begin: object) -> int:
    """How many entries of the two indexes lead the look to a row, dead ones counted."""
    explained = f"EXPLAIN (ANALYZE, FORMAT JSON) {DUE}"
    (found,) = await connection.fetchval(explained, CHAIN_ID, ENVIRONMENT, *begin)
    scans = [step for step in plan_steps(found["Plan"]) if "Heap Fetches" in step]
    assert len(scans) == 2
    return sum(step["Heap Fetches"] for step in scans)
