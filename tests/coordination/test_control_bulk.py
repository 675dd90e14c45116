"""Replay and cancel of many jobs: what matches is shown first, and exactly that is changed (DLV-15)."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

import pytest
from attrs import evolve

from storage.database import Connection, Database
from storage.query_files import query
from tayho.coordination.control import bulk as bulk_module
from tayho.coordination.control.bulk import BulkControl
from tayho.coordination.control.types import Deed, JobFilter
from tayho.kernel.ids import new_id
from tests.coordination.conftest import CHAIN_ID, ENVIRONMENT, ROLE, Plane, new_job
from tests.coordination.test_control_jobs import actions

DEED = Deed("ada", "clean up")


def bulk_of(plane: Plane) -> BulkControl:
    return BulkControl(plane.database, CHAIN_ID, ENVIRONMENT)


async def _enqueue(plane: Plane, count: int, prefix: str, **changes: object) -> list[UUID]:
    jobs = [evolve(new_job(f"{prefix}-{number}"), **changes) for number in range(count)]
    return [one.job_id for one in await plane.coordination.enqueue_many(jobs)]


async def _states(plane: Plane, job_ids: Sequence[UUID]) -> set[str]:
    return {await plane.state(job_id) for job_id in job_ids}


async def test_what_matches_is_cancelled_and_nothing_else(plane: Plane, monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: a bulk cancel page by page, each a transaction with its record. Method: pages of four over ten jobs of a
    tag, among jobs of other tags, kinds and keys; one of them runs, and one owns a nonce."""
    monkeypatch.setattr(bulk_module, "PAGE_MAX", 4)
    wanted = await _enqueue(plane, 10, "wanted", tags=("bad", "x"), kind="kind")
    owner, running = wanted[0], wanted[1]
    others = [
        *await _enqueue(plane, 2, "other-tag", tags=("good",)),
        *await _enqueue(plane, 2, "other-kind", tags=("bad",), kind="other"),
        *await _enqueue(plane, 2, "none"),
    ]
    worker_id = await plane.worker()
    begun = await plane.begin(owner, worker_id)
    assert begun.attempt is not None
    async with plane.database.transaction() as tx:
        await plane.coordination.hold_for_lineage_if_current(tx, [begun.attempt])
    await plane.begin(running, worker_id)
    which = JobFilter(tag="bad", kind="kind")
    preview = await bulk_of(plane).preview_cancel(which)
    assert (preview.jobs, preview.is_more, preview.by_kind, len(preview.sample)) == (9, False, {"kind": 9}, 5)
    done = await bulk_of(plane).cancel_many(which, DEED)
    assert (done.jobs, done.still_running, done.left) == (9, (running,), 0)
    assert await _states(plane, wanted[2:]) == {"dead"}
    assert await _states(plane, [owner, running]) == {"processing"}
    assert await _states(plane, others) == {"queued"}
    written = await actions(plane)
    assert [len(job_ids) for _, _, job_ids, _ in written] == [4, 4, 1]
    assert sorted(job_id for _, _, job_ids, _ in written for job_id in job_ids) == sorted(wanted[1:])
    assert written[0][3] == {"filter": {"tag": "bad", "kind": "kind", **_cutoff(written[0][3])}, "reason": "clean up"}
    assert (await bulk_of(plane).cancel_many(which, DEED)).jobs == 0


def _cutoff(detail: dict) -> dict:
    return {name: value for name, value in detail["filter"].items() if name == "created_before"}


@pytest.mark.parametrize(
    ("which", "matching"),
    [
        (JobFilter(), 4),
        (JobFilter(role=ROLE), 4),
        (JobFilter(role="relayer"), 0),
        (JobFilter(kind="a"), 2),
        (JobFilter(tag="t"), 2),
        (JobFilter(limit_key="k"), 2),
        (JobFilter(kind="a", tag="t", limit_key="k"), 1),
        (JobFilter(error_type="Cancelled"), 4),
        (JobFilter(error_type="Boom"), 0),
    ],
)
async def test_each_part_of_the_filter_narrows(plane: Plane, which: JobFilter, matching: int) -> None:
    """Goal: nobody's jobs are taken for another's. Method: four jobs that differ; cancel all; each filter finds its own
    among the dead, replays those, and no others."""
    job_ids: list[UUID] = []
    differing = (("1", "a", ("t",), "k"), ("2", "a", (), None), ("3", "b", ("t",), None), ("4", "b", (), "k"))
    for key, kind, tags, limit_key in differing:
        job = evolve(new_job(key), kind=kind, tags=tags, limit_key=limit_key)
        job_ids.append((await plane.coordination.enqueue(job)).job_id)
    control = bulk_of(plane)
    assert (await control.cancel_many(JobFilter(), DEED)).jobs == 4
    assert (await control.preview_replay(which)).jobs == matching
    done = await control.replay_many(which, DEED)
    assert (done.jobs, done.still_running, done.left) == (matching, (), 0)
    assert sum([await plane.state(job_id) == "queued" for job_id in job_ids]) == matching


async def test_jobs_are_narrowed_by_state_and_by_when_they_were_made(plane: Plane) -> None:
    """Goal: an incident has a beginning and an end. Method: a queued and a running job; three instants between jobs."""
    first, second = await plane.enqueue("first"), await plane.enqueue("second")
    await plane.begin(second, await plane.worker())
    control = bulk_of(plane)
    record = await plane.coordination.inspect(second)
    assert record is not None
    middle = record.created_at
    for which, expected in (
        (JobFilter(state="queued"), [first]),
        (JobFilter(state="processing"), [second]),
        (JobFilter(state="retry"), []),
        (JobFilter(created_before=middle), [first]),
        (JobFilter(created_from=middle), [second]),
    ):
        assert [one.job_id for one in (await control.preview_cancel(which)).sample] == expected, which


async def test_a_preview_is_bounded_and_says_so(plane: Plane, monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: looking costs the same however much there is. Method: a bound of six under ten jobs."""
    monkeypatch.setattr(bulk_module, "PREVIEW_MAX", 6)
    await _enqueue(plane, 10, "key")
    preview = await bulk_of(plane).preview_cancel(JobFilter())
    assert (preview.jobs, preview.is_more, sum(preview.by_kind.values())) == (6, True, 6)
    assert preview.seen_at is not None


async def test_jobs_that_come_while_it_runs_are_left_alone(plane: Plane, monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: only what was there is changed. Method: pages of one; after the first page a producer adds a job, whose id
    sorts behind all others."""
    monkeypatch.setattr(bulk_module, "PAGE_MAX", 1)
    before = [await plane.enqueue(f"before-{number}") for number in range(3)]
    late: list[UUID] = []

    class Producing(BulkControl):
        async def cancel_page(self, *arguments: object, **named: object):  # type: ignore[no-untyped-def]
            done = await super().cancel_page(*arguments, **named)  # type: ignore[arg-type]
            if not late:
                late.append(await plane.enqueue("late"))
            return done

    done = await Producing(plane.database, CHAIN_ID, ENVIRONMENT).cancel_many(JobFilter(), DEED)
    assert done.jobs == 3
    assert await _states(plane, before) == {"dead"}
    assert await _states(plane, late) == {"queued"}


async def _plan(connection: Connection, ref: str, *arguments: object) -> str:
    """The plan that a prepared statement keeps: the one for any arguments."""
    await connection.execute("SET LOCAL plan_cache_mode = 'force_generic_plan'")
    rows = await connection.fetch(f"EXPLAIN {query(ref).sql}", *arguments)
    return "\n".join(row[0] for row in rows)


async def _fill_with_ended(database: Database, count: int) -> None:
    """So many jobs that ended well, without their lives: the triggers are off."""
    async with database.transaction() as tx:
        await tx.execute("SET LOCAL session_replication_role = replica")
        await tx.execute(
            "INSERT INTO coordination.jobs (job_id, chain_id, environment, idempotency_key, request_digest, role, kind,"
            " request, priority, run_at, state, ended_at)"
            " SELECT gen_random_uuid(), $1, $2, 'ended-' || n, sha256('x'), 'automation', 'kind', '{}', 1, now(),"
            " CASE WHEN n % 1000 = 0 THEN 'dead' ELSE 'completed' END, now() FROM generate_series(1, $3) AS n",
            CHAIN_ID,
            ENVIRONMENT,
            count,
        )
    async with database.connection() as connection:
        await connection.execute("ANALYZE coordination.jobs")


@pytest.mark.parametrize(
    ("ref", "arguments", "index"),
    [
        ("coordination/control.page_of_dead", (new_id(), 500, *[None] * 7), "jobs_set_aside"),
        ("coordination/control.page_of_open", (new_id(), 500, *[None] * 8), "jobs_pkey"),
        ("coordination/control.list_dead", (None, None, 50), "jobs_set_aside"),
    ],
)
async def test_no_operation_reads_the_jobs_that_ended_well(
    plane: Plane, ref: str, arguments: tuple[object, ...], index: str
) -> None:
    """Goal: an operation in an incident does not scan ten million rows. Method: thirty thousand ended jobs, a few dead
    ones, some open ones; the generic plan reads the jobs by the named index and never one after the other."""
    await _enqueue(plane, 50, "open")
    await _fill_with_ended(plane.database, 30_000)
    async with plane.database.transaction() as tx:
        plan = await _plan(tx, ref, CHAIN_ID, ENVIRONMENT, *arguments)
    assert "Seq Scan on jobs" not in plan, plan
    assert index in plan, plan
