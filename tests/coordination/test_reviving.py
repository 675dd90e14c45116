"""Jobs whose end the chain took back: what goes on, what is left alone, and whoever meets over it (TX-6, DLV-7)."""

from __future__ import annotations

from uuid import UUID

import pytest
import trio

from storage.database import Connection
from storage.errors import StorageError
from storage.records import delivery_id
from tayho.coordination.attempts import End, Ends
from tayho.coordination.control.errors import NotDead
from tayho.coordination.types import JobRecord, Revival, Settlement
from tayho.kernel.jobs import Attempt
from tests.coordination.conftest import SETTINGS, Plane
from tests.coordination.test_control_jobs import DEED, control_of, died
from tests.coordination.test_races import until_waiting

UN_MINED = {"type": "UnMined", "message": "taken back"}


async def settled(plane: Plane, key: str, state: str) -> UUID:
    """A job that owned a nonce and that the chain ended."""
    job_id, attempt = await begun(plane, key)
    async with plane.database.transaction() as tx:
        assert await plane.coordination.hold_for_lineage_if_current(tx, [attempt])
        assert await plane.coordination.confirm_if_current(tx, [attempt])
        await plane.coordination.settle(tx, [Settlement(job_id, state, {"type": "RevertedOnChain"})])
    return job_id


async def begun(plane: Plane, key: str) -> tuple[UUID, Attempt]:
    job_id = await plane.enqueue(key)
    one = await plane.begin(job_id, await plane.worker())
    assert one.attempt is not None
    return job_id, one.attempt


async def revive(plane: Plane, *job_ids: UUID) -> frozenset[UUID]:
    async with plane.database.transaction() as tx:
        return await plane.coordination.revive(tx, [Revival(job_id, UN_MINED) for job_id in job_ids])


async def record_of(plane: Plane, job_id: UUID) -> JobRecord:
    record = await plane.coordination.inspect(job_id)
    assert record is not None
    return record


@pytest.mark.parametrize("state", ["completed", "dead"])
async def test_what_the_chain_ended_goes_on(plane: Plane, state: str) -> None:
    """Goal: TX-6: the job returns to `retry` with its lineage. Method: a settled job whose budget is spent is revived:
    its end is gone, its key and history stay, its delivery is of the next generation, due at once, and it begins."""
    job_id = await settled(plane, "key", state)
    before = await record_of(plane, job_id)
    assert await revive(plane, job_id) == {job_id}
    after = await record_of(plane, job_id)
    assert (after.state, after.has_live_lineage, after.attempts_spent) == ("retry", True, 0)
    assert (after.ended_at, after.result, after.last_error) == (None, None, UN_MINED)
    assert after.generation == before.generation + 1
    assert after.attempts == before.attempts
    assert after.outbox_published_at is None
    await plane.publisher().publish_due()
    (delivery,) = await plane.queue.fetch(1)
    assert delivery.delivery_id == delivery_id(job_id, after.generation)
    again = await plane.begin(job_id, await plane.worker(), generation=after.generation)
    assert again.verdict == "begun"
    assert again.job is not None
    assert again.job.has_live_lineage


async def test_a_revived_job_ends_as_often_as_the_chain_says(plane: Plane) -> None:
    """Goal: flip-flops leave nothing behind. Method: settle and revive one job five times; the last end stands, and
    each generation is a new one."""
    job_id = await settled(plane, "key", "completed")
    for number in range(5):
        assert await revive(plane, job_id) == {job_id}
        async with plane.database.transaction() as tx:
            assert await plane.coordination.settle(tx, [Settlement(job_id, "completed", {"block": number})]) == {job_id}
    record = await record_of(plane, job_id)
    assert (record.state, record.result, record.generation) == ("completed", {"block": 4}, 6)
    assert record.outbox_due_at is None


async def test_a_replayed_job_without_a_nonce_takes_its_old_lineage_up(plane: Plane) -> None:
    """Goal: never a second nonce beside one that may be mined. Method: dead by the chain, replayed, and revived while
    it waits, or while an attempt runs: the attempt is fenced off, and cannot allocate."""
    waiting, running = await settled(plane, "waiting", "dead"), await settled(plane, "running", "dead")
    for job_id in (waiting, running):
        await control_of(plane).replay(job_id, DEED)
    one = await plane.begin(running, await plane.worker(), generation=2)
    assert one.attempt is not None
    assert await revive(plane, waiting, running) == {waiting, running}
    for job_id in (waiting, running):
        record = await record_of(plane, job_id)
        assert (record.state, record.has_live_lineage, record.generation) == ("retry", True, 3)
    assert (await record_of(plane, running)).attempts[-1].state == "lost"
    async with plane.database.transaction() as tx:
        assert not await plane.coordination.hold_for_lineage_if_current(tx, [one.attempt])
    assert (await plane.begin(running, await plane.worker(), generation=2)).verdict == "stale_generation"


async def _owns_another(plane: Plane) -> UUID:
    job_id = await settled(plane, "key", "dead")
    await control_of(plane).replay(job_id, DEED)
    one = await plane.begin(job_id, await plane.worker(), generation=2)
    assert one.attempt is not None
    async with plane.database.transaction() as tx:
        assert await plane.coordination.hold_for_lineage_if_current(tx, [one.attempt])
    return job_id


async def _unwanted(plane: Plane) -> UUID:
    job_id = await settled(plane, "key", "dead")
    await control_of(plane).replay(job_id, DEED)
    await control_of(plane).cancel(job_id, DEED)
    return job_id


async def _not_actionable(plane: Plane) -> UUID:
    job_id = await settled(plane, "key", "dead")
    await control_of(plane).replay(job_id, DEED)
    one = await plane.begin(job_id, await plane.worker(), generation=2)
    assert one.attempt is not None
    end = End(one.attempt, "not_actionable", {"reason": "done by others"})
    await Ends(plane.database, SETTINGS.attempts_max).end_all_if_current([end])
    return job_id


async def _archived(plane: Plane) -> UUID:
    job_id = await settled(plane, "key", "completed")
    async with plane.database.transaction() as tx:
        await tx.execute("SELECT set_config('tayho.operation', 'archive', true)")
        await tx.execute(
            "UPDATE coordination.jobs SET archived_at = now(), request = '{}', result = NULL WHERE job_id = $1", job_id
        )
    return job_id


@pytest.mark.parametrize("make", [_owns_another, _unwanted, _not_actionable, _archived])
async def test_a_job_that_is_not_the_lineages_any_more_is_left_alone(plane: Plane, make: object) -> None:
    """Goal: an old lineage never acts for a job that owns another, is not wanted, found nothing to do, or is archived.
    Method: revive each: it is not returned, and nothing of it changed; another in the same call is revived."""
    assert callable(make)
    job_id, other = await make(plane), await settled(plane, "other", "completed")
    before = await record_of(plane, job_id)
    assert await revive(plane, job_id, other) == {other}
    assert await record_of(plane, job_id) == before


async def test_an_end_is_taken_back_only_by_name(plane: Plane) -> None:
    """Goal: a bug elsewhere cannot revive a job. Method: the bare update is refused by the database."""
    job_id = await settled(plane, "key", "completed")
    with pytest.raises(StorageError, match="revive"):
        async with plane.database.connection() as connection:
            await connection.execute(
                "UPDATE coordination.jobs SET state = 'retry', ended_at = NULL WHERE job_id = $1", job_id
            )


@pytest.mark.parametrize("first", ["revive", "replay"])
async def test_revival_and_replay_at_once_leave_one_lineage(plane: Plane, first: str) -> None:
    """Goal: whoever comes first, the job goes on once and owns its old lineage. Method: hold the job's row while both
    queue for it in either order, let go."""
    job_id = await settled(plane, "key", "dead")
    answers: list[object] = []

    async def run_revival() -> None:
        answers.append(await revive(plane, job_id))

    async def run_replay() -> None:
        try:
            await control_of(plane).replay(job_id, DEED)
        except NotDead as error:
            answers.append(error)

    racers = [run_revival, run_replay] if first == "revive" else [run_replay, run_revival]
    async with trio.open_nursery() as tasks, plane.database.transaction() as holder:
        await hold(holder, job_id)
        for number, racer in enumerate(racers, start=1):
            tasks.start_soon(racer)
            await until_waiting(plane.database, number)
    record = await record_of(plane, job_id)
    assert (record.state, record.has_live_lineage) == ("retry", True)
    assert frozenset({job_id}) in answers
    assert any(isinstance(answer, NotDead) for answer in answers) == (first == "revive")
    async with plane.database.connection() as connection:
        assert await connection.fetchval("SELECT count(*) FROM coordination.outbox") == 1


async def test_a_revival_that_waited_for_a_begin_leaves_no_attempt_running(plane: Plane) -> None:
    """Goal: I6: a statement must see what it waited for. Method: a replayed job; hold its row, let a delivery begin and
    the revival queue for it in this order, let go: the attempt that began meanwhile is fenced off."""
    job_id = await settled(plane, "key", "dead")
    await control_of(plane).replay(job_id, DEED)
    worker_id = await plane.worker()
    async with trio.open_nursery() as tasks, plane.database.transaction() as holder:
        await hold(holder, job_id)

        async def start() -> None:
            assert (await plane.begin(job_id, worker_id, generation=2)).verdict == "begun"

        async def take_back() -> None:
            assert await revive(plane, job_id) == {job_id}

        for number, racer in enumerate((start, take_back), start=1):
            tasks.start_soon(racer)
            await until_waiting(plane.database, number)
    record = await record_of(plane, job_id)
    assert (record.state, record.attempts[-1].state) == ("retry", "lost")


async def hold(tx: Connection, job_id: UUID) -> None:
    await tx.execute("SELECT FROM coordination.jobs WHERE job_id = $1 FOR UPDATE", job_id)


async def test_ten_revivals_at_once_revive_once(plane: Plane) -> None:
    """Goal: every replica sees the reorganisation. Method: ten revivals of twenty jobs, each in another order."""
    job_ids = [await settled(plane, f"key-{number}", "completed") for number in range(20)]
    answers: list[frozenset[UUID]] = []

    async def once(turn: int) -> None:
        answers.append(await revive(plane, *job_ids[turn:], *job_ids[:turn]))

    async with trio.open_nursery() as racers:
        for turn in range(10):
            racers.start_soon(once, turn)
    assert sorted(job_id for answer in answers for job_id in answer) == sorted(job_ids)
    assert {(await record_of(plane, job_id)).generation for job_id in job_ids} == {2}


async def test_a_job_that_died_of_its_budget_has_it_whole_again(plane: Plane) -> None:
    """Goal: what is revived is not killed at once. Method: replayed after a revert, then every attempt failed; revived,
    a failed attempt leaves it in `retry`."""
    job_id = await died(plane)
    assert await revive(plane, job_id) == {job_id}
    one = await plane.begin(job_id, await plane.worker(), generation=2)
    assert one.attempt is not None
    end = End(one.attempt, "failed", {"type": "Boom", "message": "boom"})
    await Ends(plane.database, SETTINGS.attempts_max).end_all_if_current([end])
    assert (await record_of(plane, job_id)).state == "retry"
