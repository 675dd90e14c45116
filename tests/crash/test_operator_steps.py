"""SIGKILL of an operator's command between its commit and whatever it would have done next (PRF-2)."""

from __future__ import annotations

import os
import sys
from functools import partial
from uuid import UUID

import pytest
import trio

from tayho.coordination.control.errors import NotDead
from tayho.coordination.control.jobs import JobControl
from tayho.coordination.control.throttles import Throttles
from tayho.coordination.control.types import Deed
from tayho.faults import CRASH_AT
from tayho.kernel.steps import STEPS
from tests.crash.test_every_step import CONTROL_STEPS
from tests.crash.world import ENVIRONMENT, World
from tests.services.chain import CHAIN_ID
from tests.waiting import until

pytestmark = [pytest.mark.crash, pytest.mark.services]

ROLE = "automation"
DEED = Deed("ada", "a test")
# What the commands are: `jobs` and `throttles` stand for the two faces, `job_id` for the job at hand.
COMMANDS = {
    "control.after_replay": "await jobs.replay(job_id, deed)",
    "control.after_cancel": "await jobs.cancel(job_id, deed)",
    "control.after_pause": "await throttles.pause('automation', deed)",
    "control.after_resume": "await throttles.resume('automation', deed)",
    "control.after_resumed_page": "await throttles.resume('automation', deed)",
    "control.after_limit": "await throttles.set_limit('tenant', Limit(concurrent_max=1), deed)",
    "control.after_limit_removed": "await throttles.remove_limit('tenant', deed)",
    "control.after_drain": "await instances.drain('automation-1', deed)",
    "control.after_undrain": "await instances.undrain('automation-1', deed)",
}
SCRIPT = """
import os, sys, trio
from uuid import UUID
from nursery.asyncio_bridge import open_bridge
from storage.database import Database
from tayho.coordination.module import Deed, Instances, JobControl, Limit, Throttles
from tayho.faults import arm_from
async def main():
    url, chain_id, environment, job_id = sys.argv[1], int(sys.argv[2]), sys.argv[3], UUID(sys.argv[4])
    arm_from(os.environ, environment)
    async with open_bridge(), Database.open(url, pool_size=1, application_name='operator') as database:
        faces = JobControl, Throttles, Instances
        jobs, throttles, instances = (face(database, chain_id, environment) for face in faces)
        deed = Deed('ada', 'a test')
        {command}
trio.run(main)
"""


async def _die(step: str, database_url: str, job_id: UUID) -> None:
    """Run the command of the step in a process that kills itself there."""
    script = SCRIPT.replace("{command}", COMMANDS[step])
    arguments = [sys.executable, "-c", script, database_url, str(CHAIN_ID), ENVIRONMENT, str(job_id)]
    died = await trio.run_process(arguments, env={**os.environ, CRASH_AT: step}, check=False, capture_stderr=True)
    assert died.returncode == -9, died.stderr.decode()


def _faces(crashing: World) -> tuple[JobControl, Throttles]:
    database = crashing.database
    return JobControl(database, CHAIN_ID, ENVIRONMENT), Throttles(database, CHAIN_ID, ENVIRONMENT)


async def _all_complete(crashing: World, job_ids: list[UUID]) -> None:
    assert set((await crashing.await_all_ended(job_ids)).values()) == {"completed"}
    assert set((await crashing.effects(job_ids)).values()) == {1}
    await crashing.check()


async def _actions(crashing: World) -> list[str]:
    async with crashing.database.connection() as connection:
        rows = await connection.fetch("SELECT action FROM coordination.operator_actions ORDER BY action_id")
    return [row["action"] for row in rows]


async def test_killed_after_a_replay_the_job_runs_once(crashing: World, database_url: str) -> None:
    """Goal: the replay is whole, with its record, or not there. Method: a dead job; the operator dies before anybody is
    told; a replica runs it; a second replay is refused."""
    jobs, _ = _faces(crashing)
    (job_id,) = await crashing.enqueue("key", 1)
    await jobs.cancel(job_id, DEED)
    await _die("control.after_replay", database_url, job_id)
    with pytest.raises(NotDead):
        await jobs.replay(job_id, DEED)
    assert await _actions(crashing) == ["cancel", "replay"]
    await crashing.start()
    await _all_complete(crashing, [job_id])


async def test_killed_after_a_cancellation_the_job_has_no_effect(crashing: World, database_url: str) -> None:
    """Goal: a job that was cancelled stays so, though nobody was told. Method: its record waits in the queue; the
    operator dies; a replica takes the record and another job's; the second request gets the same answer."""
    jobs, _ = _faces(crashing)
    (job_id,) = await crashing.enqueue("unwanted", 1)
    await crashing.publish_by_hand(job_id)
    await _die("control.after_cancel", database_url, job_id)
    assert (await jobs.cancel(job_id, DEED)).has_ended
    wanted = await crashing.enqueue("wanted", 1)
    await crashing.start()
    await _all_complete(crashing, wanted)
    assert await crashing.effects([job_id]) == {job_id: 0}
    assert await _actions(crashing) == ["cancel"]


async def test_killed_after_a_pause_the_role_is_paused(crashing: World, database_url: str) -> None:
    """Goal: a pause needs nobody to hear of it. Method: a replica runs; the operator dies before the notification; jobs
    that come are left alone past two heartbeats of the replica; they run when the role is resumed."""
    _, throttles = _faces(crashing)
    first = await crashing.enqueue("first", 1)
    await crashing.start()
    await _all_complete(crashing, first)
    await _die("control.after_pause", database_url, first[0])
    job_ids = await crashing.enqueue("later", 3)

    async def put_off() -> bool:
        async with crashing.database.connection() as connection:
            return (
                await connection.fetchval(
                    "SELECT count(*) FROM coordination.outbox WHERE due_at > now() + interval '500 seconds'"
                )
                == 3
            )

    await until(put_off, seconds=20, what="the jobs to be put off")
    assert {(await crashing.jobs.count_by_state()).get(state) for state in ("queued", "completed")} == {3, 1}
    assert not await throttles.pause(ROLE, DEED)
    await throttles.resume(ROLE, DEED)
    await _all_complete(crashing, [*first, *job_ids])


@pytest.mark.parametrize("step", ["control.after_resume", "control.after_resumed_page"])
async def test_killed_while_it_resumes_the_same_command_does_the_rest(
    crashing: World, database_url: str, step: str
) -> None:
    """Goal: no job waits out the whole of its being put off. Method: jobs are put off by a pause; the operator dies
    when the pause has ended, or when the first rows are due; the command again has all of them run."""
    _, throttles = _faces(crashing)
    await throttles.pause(ROLE, DEED)
    job_ids = await crashing.enqueue("key", 3)
    await crashing.start()

    async def put_off() -> bool:
        async with crashing.database.connection() as connection:
            return (
                await connection.fetchval(
                    "SELECT count(*) FROM coordination.outbox WHERE due_at > now() + interval '500 seconds'"
                )
                == 3
            )

    await until(put_off, seconds=30, what="the jobs to be put off")
    await _die(step, database_url, job_ids[0])
    assert await throttles.list_pauses() == []
    assert not await throttles.resume(ROLE, DEED)
    await _all_complete(crashing, job_ids)
    assert await _actions(crashing) == ["pause", "resume"]


@pytest.mark.parametrize("step", ["control.after_limit", "control.after_limit_removed"])
async def test_killed_after_a_limit_changed_it_stands(crashing: World, database_url: str, step: str) -> None:
    """Goal: a limit is set or removed with its record, whoever hears of it. Method: the operator dies; look; jobs
    run."""
    _, throttles = _faces(crashing)
    job_ids = await crashing.enqueue("key", 1)
    await _die("control.after_limit", database_url, job_ids[0])
    if step == "control.after_limit_removed":
        await _die(step, database_url, job_ids[0])
    limits = [(line.limit_key, line.concurrent_max) for line in await throttles.list_limits()]
    assert limits == ([("tenant", 1)] if step == "control.after_limit" else [])
    assert await _actions(crashing) == ["limit"] * (1 if step == "control.after_limit" else 2)
    await crashing.start()
    await _all_complete(crashing, job_ids)


async def test_killed_after_a_drain_or_an_undrain_it_stands(crashing: World, database_url: str) -> None:
    """Goal: the process hears of it though the operator is gone. Method: a replica; the operator dies at the drain's
    commit; jobs that come wait until the operator who undrains dies too; then they run."""
    replica = await crashing.start()
    done = await crashing.enqueue("before", 1)
    await _all_complete(crashing, done)
    await _die("control.after_drain", database_url, done[0])
    await crashing.await_word(replica, "drained", seconds=20)
    waiting = await crashing.enqueue("waiting", 3)
    await until(partial(_are_published, crashing), seconds=20, what="the jobs to be published")
    assert not {(await crashing.record(job_id)).attempt_number for job_id in waiting} - {0}
    await _die("control.after_undrain", database_url, done[0])
    await _all_complete(crashing, [*done, *waiting])
    assert await _actions(crashing) == ["drain", "undrain"]


async def _are_published(crashing: World) -> bool:
    async with crashing.database.connection() as connection:
        return await connection.fetchval("SELECT count(published_at) FROM coordination.outbox") == 3


def test_every_step_of_an_operator_is_died_at() -> None:
    """Goal: a new step cannot stay untested. Method: each has its command here, and each command a test above."""
    assert set(COMMANDS) == CONTROL_STEPS
    assert CONTROL_STEPS <= STEPS
