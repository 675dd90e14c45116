"""SIGKILL at every named step between two durable effects (PRF-2)."""

from __future__ import annotations

import os
import sys
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path

import pytest
import trio

from tayho.faults import CRASH_AT
from tayho.kernel.ids import new_id
from tayho.kernel.steps import STEPS
from tests.crash.planted import planted
from tests.crash.world import ENVIRONMENT, World
from tests.services.chain import CHAIN_ID
from tests.services.plug_in import plug_in
from tests.waiting import until

pytestmark = [pytest.mark.crash, pytest.mark.services]

JOBS = 3

# Of an operator's commands, not of a replica: tests/crash/test_operator_steps.py dies at each.
CONTROL_STEPS = {step for step in STEPS if step.startswith("control.")}
# Of lanes and worlds that are not as they should be: tests/crash/test_lane_steps.py dies at each.
LANE_STEPS = {
    "lane.after_state",
    "lane.after_foreign",
    "lane.after_block",
    "lane.after_reopen",
    "halt.after_raise",
    "halt.after_resolve",
    "world.after_adopt",
    "world.after_restart",
}
# Of a chain that takes blocks back: tests/crash/test_reorganisation_steps.py dies at each.
HEALING_STEPS = {"reorg.after_record", "reorg.after_revive", "supersede.after_hold", "supersede.after_decide"}
# Of the exchange of a signer: tests/crash/test_rotation_drill.py dies at each.
ROTATION_STEPS = {step for step in STEPS if step.startswith("rotation.")}
# Steps that an ordinary run does not pass; each has a test of its own below.
STAGED = {
    "enqueue.after_commit",
    "publish.after_ageing",
    "publish.after_promotion",
    "attempt.after_end",
    "delivery.after_decline",
    *CONTROL_STEPS,
    *LANE_STEPS,
    *HEALING_STEPS,
    *ROTATION_STEPS,
    "worker.after_stop",
    "retention.after_reap",
    # tests/crash/test_scan_steps.py dies at each.
    "scan.after_record",
    "scan.after_findings",
    "schedule.after_declare",
    "schedule.after_hold",
    "schedule.after_fire",
    "journal.after_abandon",
    "reconcile.after_rebroadcast",
    # tests/crash/test_replacing_steps.py dies at each.
    "replace.after_wish",
    "replace.after_sign",
    "replace.after_persist",
    "replace.after_send",
    "replace.after_abandon",
    "hold.after_change",
    # tests/crash/test_batch_steps.py dies at each.
    "results.after_hold",
    "intent.after_register",
    "intent.after_accept",
    "batch.after_claim",
    "batch.after_release",
}
ORDINARY = sorted(STEPS - STAGED)


@pytest.mark.parametrize("step", ORDINARY)
async def test_killed_at_a_step_every_job_takes_effect_once(crashing: World, step: str) -> None:
    """Goal: a crash between any two effects loses nothing and doubles nothing. Method: one replica dies at the step
    while it carries three jobs; another is started; I1 to I6 are asked of database and chain."""
    job_ids = await crashing.enqueue(step, JOBS)
    doomed = await crashing.start(crash_at=step)
    await crashing.await_death(doomed)
    await crashing.check()
    await crashing.start()
    states = await crashing.await_all_ended(job_ids)
    assert set(states.values()) == {"completed"}
    assert set((await crashing.effects(job_ids)).values()) == {1}
    await crashing.check()


async def test_killed_after_the_enqueue_commits_the_job_is_there_once(crashing: World, database_url: str) -> None:
    """Goal: a producer that dies before it hears the answer asks again and gets the same job. Method: a process of its
    own enqueues and is killed right after the commit; the same key is enqueued again."""
    script = (
        "import os, sys, trio\n"
        "from nursery.asyncio_bridge import open_bridge\n"
        "from storage.database import Database\n"
        "from tayho.coordination.module import enqueue_jobs\n"
        "from tayho.coordination.types import NewJob\n"
        "from tayho.faults import arm_from\n"
        "async def main():\n"
        "    arm_from(os.environ, sys.argv[3])\n"
        "    async with open_bridge(), Database.open(sys.argv[1], pool_size=1, application_name='p') as database:\n"
        "        job = NewJob('counter.record', 'automation', 'key-0', {'contract': sys.argv[4]})\n"
        "        await enqueue_jobs(database, int(sys.argv[2]), sys.argv[3], [job])\n"
        "trio.run(main)\n"
    )
    arguments = [sys.executable, "-c", script, database_url, str(CHAIN_ID), ENVIRONMENT, str(crashing.contract)]
    environment = {**os.environ, CRASH_AT: "enqueue.after_commit"}
    died = await trio.run_process(arguments, env=environment, check=False)
    assert died.returncode == -9
    (again,) = await crashing.enqueue("key", 1)
    assert len(await crashing.jobs.list_recent()) == 1
    await crashing.start()
    assert await crashing.await_all_ended([again]) == {again: "completed"}
    assert await crashing.effects([again]) == {again: 1}
    await crashing.check()


async def test_killed_after_an_attempt_ended_its_end_stands(crashing: World) -> None:
    """Goal: an end that PostgreSQL has is not repeated though BullMQ never heard of it. Method: a job whose effect is
    there already ends `not_actionable`; the replica dies before the acknowledgement; a second one runs."""
    event = os.urandom(32)
    first = await crashing.enqueue_once("first", event)
    healthy = await crashing.start()
    await crashing.await_all_ended([first])
    healthy.kill()
    second = await crashing.enqueue_once("second", event)
    await crashing.await_death(await crashing.start(crash_at="attempt.after_end"))
    await crashing.start()
    states = await crashing.await_all_ended([first, second])
    assert states == {first: "completed", second: "not_actionable"}
    record = await crashing.jobs.inspect(second)
    assert record is not None
    assert record.attempt_number == 1
    await crashing.check()


async def test_killed_after_an_abandonment_the_lane_has_no_gap(crashing: World) -> None:
    """Goal: an unsigned nonce that is not wanted any more goes back, whatever dies. Method: a replica dies having
    allocated; its effect is made by another key meanwhile, so the resumed job abandons, and that replica dies too; a
    third one runs on, on the same lanes."""
    event = os.urandom(32)
    unwanted = await crashing.enqueue_once("unwanted", event)
    await crashing.await_death(await crashing.start(crash_at="journal.after_allocate"))
    await crashing.record_by_a_foreign_key(event)
    await crashing.await_death(await crashing.start(crash_at="journal.after_abandon"))
    await crashing.check()
    await crashing.start()
    wanted = await crashing.enqueue("wanted", 4)
    states = await crashing.await_all_ended([unwanted, *wanted])
    assert states.pop(unwanted) == "not_actionable"
    assert set(states.values()) == {"completed"}
    await crashing.check()


async def test_killed_after_a_rebroadcast_the_same_bytes_are_mined_once(crashing: World) -> None:
    """Goal: the reconciler's rebroadcast is as safe as the first. Method: a replica dies with signed bytes that no node
    has; the next one's reconciler sends them and dies before it records the answer; a third one runs on."""
    job_ids = await crashing.enqueue("key", 1)
    await crashing.await_death(await crashing.start(crash_at="journal.after_persist"))
    await crashing.await_death(await crashing.start(crash_at="reconcile.after_rebroadcast"))
    await crashing.start()
    assert set((await crashing.await_all_ended(job_ids)).values()) == {"completed"}
    assert set((await crashing.effects(job_ids)).values()) == {1}
    await crashing.check()


async def test_killed_after_declining_a_delivery_the_job_still_runs(crashing: World) -> None:
    """Goal: a delivery that came too early is put back by whoever has it, and nothing is lost if that one dies. Method:
    the record of a job that is not due yet is published by hand; the replica that declines it dies."""
    job_id = await crashing.enqueue_later("later", seconds=8)
    await crashing.publish_by_hand(job_id)
    await crashing.await_death(await crashing.start(crash_at="delivery.after_decline"))
    await crashing.start()
    assert await crashing.await_all_ended([job_id]) == {job_id: "completed"}
    assert await crashing.effects([job_id]) == {job_id: 1}
    await crashing.check()


async def test_killed_after_refusing_a_foreign_delivery_the_others_run(crashing: World) -> None:
    """Goal: a record that names no job of ours harms nobody, whoever dies over it. Method: such a record and a good
    job;
    the replica that refuses the record dies; another runs."""
    await crashing.publish_by_hand(new_id())
    (job_id,) = await crashing.enqueue("key", 1)
    await crashing.await_death(await crashing.start(crash_at="delivery.after_decline"))
    await crashing.start()
    assert await crashing.await_all_ended([job_id]) == {job_id: "completed"}
    assert await crashing.effects([job_id]) == {job_id: 1}
    await crashing.check()


async def test_killed_after_promoting_a_record_the_job_still_runs(crashing: World, tmp_path: Path) -> None:
    """Goal: a record that a wrong clock delayed for an hour runs soon, whoever dies over it. Method: such a record; the
    replica whose delivery check promotes it dies; another runs."""
    kinds = planted(tmp_path)
    job_id = await crashing.enqueue_planted("key")
    await crashing.delay_by_hand(job_id, seconds=3_600)
    await crashing.await_death(await crashing.start(crash_at="publish.after_promotion", plug_in=kinds))
    await crashing.start(plug_in=kinds)
    assert await crashing.await_all_ended([job_id]) == {job_id: "completed"}
    assert len((await crashing.record(job_id)).attempts) == 1


async def test_killed_after_ageing_a_record_both_jobs_run(crashing: World, tmp_path: Path) -> None:
    """Goal: moving a waiting record forward is safe to repeat. Method: the only handler is busy while a job waits that
    is three minutes old; the replica whose delivery check moves it forward dies; another runs both."""
    kinds = planted(tmp_path)
    doomed = await crashing.start(crash_at="publish.after_ageing", plug_in=kinds, QUEUE_CONCURRENCY="1")
    busy = await crashing.enqueue_planted("busy", do="wait_first", folder=str(tmp_path))
    await until((tmp_path / "busy.begun").exists, seconds=60, what="the handler to be busy")
    old = await crashing.enqueue_planted("old")
    async with crashing.database.connection() as connection:
        await connection.execute(
            "UPDATE coordination.jobs SET run_at = run_at - interval '3 minutes' WHERE job_id = $1", old
        )
    await crashing.await_death(doomed)
    await crashing.start(plug_in=kinds)
    states = await crashing.await_all_ended([busy, old])
    assert set(states.values()) == {"completed"}


async def test_killed_after_its_last_word_nothing_is_left_behind(crashing: World) -> None:
    """Goal: the end of a drain is an effect like any other. Method: a drained replica dies right after it recorded its
    stop; the job that it had sent is finished by another."""
    job_ids = await crashing.enqueue("key", 1)
    doomed = await crashing.start(crash_at="worker.after_stop")
    await crashing.await_state(job_ids[0], "confirming", "completed")
    doomed.terminate()
    await crashing.await_death(doomed)
    await crashing.start()
    assert set((await crashing.await_all_ended(job_ids)).values()) == {"completed"}
    await crashing.check()


@pytest.mark.parametrize("step", ["schedule.after_declare", "schedule.after_hold", "schedule.after_fire:2"])
async def test_killed_while_it_schedules_every_slot_has_one_job(crashing: World, step: str, tmp_path: Path) -> None:
    """Goal: whoever dies over a slot, it fires once. Method: a kind with a slot each second, that catches up with all
    it missed; the first replica dies at the step, two more run on; the slots from the first to the last have no gap and
    one job each, and every job ends."""
    source = (
        "from tayho.kinds import Completed, Schedule\n"
        "class Scan:\n"
        "    name, role = 'planted.scan', 'automation'\n"
        "    schedules = (Schedule(name='scan', every_seconds=1, catch_up='all'),)\n"
        "    async def run(self, job, reads):\n"
        "        return Completed(job.request['slot_at'])\n"
    )
    kinds = plug_in(tmp_path, source, "Scan")
    await crashing.await_death(await crashing.start(crash_at=step, plug_in=kinds))
    (schedule,) = await crashing.jobs.list_schedules()
    since = schedule.decided_until if schedule.last_slot_at is None else None
    for _ in range(2):
        await crashing.start(plug_in=kinds)

    async def five_more() -> bool:
        (now,) = await crashing.jobs.list_schedules()
        return now.decided_until >= schedule.decided_until + timedelta(seconds=5)

    await until(five_more, seconds=30, what="five more slots to fire")
    lines = await crashing.jobs.list_recent(lines_max=1_000)
    slots = sorted(datetime.fromisoformat(line.idempotency_key.rpartition("/")[2]) for line in lines)
    assert [later - earlier for earlier, later in pairwise(slots)] == [timedelta(seconds=1)] * (len(slots) - 1)
    assert since is None or slots[0] - since <= timedelta(seconds=1)
    states = await crashing.await_all_ended([line.job_id for line in lines])
    assert set(states.values()) == {"completed"}
    await crashing.check()


async def test_killed_in_the_middle_of_retention_a_key_still_stands_for_its_job(
    crashing: World, database_url: str
) -> None:
    """Goal: what retention takes is all that is lost, whoever dies over it. Method: jobs of long ago; a replica dies
    right after it archived them, another after it reaped the workers; a third runs on; the old keys are asked for
    again."""
    job_ids = await crashing.enqueue("key", JOBS)
    healthy = await crashing.start()
    await crashing.await_all_ended(job_ids)
    healthy.kill()
    await crashing.grow_old(database_url)
    await crashing.await_death(await crashing.start(crash_at="retention.after_archive"))
    await crashing.grow_old(database_url)
    await crashing.await_death(await crashing.start(crash_at="retention.after_reap"))
    await crashing.start()
    assert await crashing.enqueue("key", JOBS) == job_ids
    later = await crashing.enqueue("later", 1)
    assert set((await crashing.await_all_ended([*job_ids, *later])).values()) == {"completed"}
    assert set((await crashing.effects([*job_ids, *later])).values()) == {1}
    for job_id in job_ids:
        record = await crashing.jobs.inspect(job_id)
        assert record is not None
        assert (record.request, record.attempts) == ({}, ())
    await crashing.check()


def test_every_step_is_killed_at() -> None:
    """Goal: a new step cannot stay untested. Method: the parametrised list is made from STEPS itself; the staged ones
    are named in this file."""
    assert STAGED <= STEPS
    assert set(ORDINARY) | STAGED == STEPS
