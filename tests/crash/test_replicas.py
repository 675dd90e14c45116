"""Two replicas as processes: one that is frozen, killed or cut off, and what becomes of its jobs (DLV-5, DLV-6)."""

from __future__ import annotations

import signal
from datetime import timedelta
from pathlib import Path

import pytest
import trio

from tests.crash.planted import planted
from tests.crash.world import LOCK_SECONDS, World
from tests.services.launch import Launched
from tests.waiting import until

pytestmark = [pytest.mark.crash, pytest.mark.services]

# A scan twice a lock, with a tenth of jitter; it moves whatever an earlier one marked and whose lock has run out.
SCAN_SECONDS = 1.1 * LOCK_SECONDS / 2
# Fetch, begin, and a machine that has other things to do.
SLACK_SECONDS = 1.0
# How long an idle worker blocks in Redis (tayho.coordination.worker).
BLOCK_SECONDS = 5.0
POLL_SECONDS = 1.0
RECONCILE_SECONDS = 2.0


async def test_a_frozen_replica_loses_its_job_and_its_late_completion_is_refused(
    crashing: World, tmp_path: Path
) -> None:
    """Goal: I6 between processes. Method: a replica is stopped in the middle of a handler, past its lock; another takes
    the job over and completes it; the first goes on and completes too: its word counts for nothing, and the record
    tells both."""
    kinds = planted(tmp_path)
    first = await crashing.start(plug_in=kinds)
    job_id = await crashing.enqueue_planted("key", do="block_first", folder=str(tmp_path))
    await until((tmp_path / "key.begun").exists, seconds=30, what="the handler to begin")
    first.process.send_signal(signal.SIGSTOP)
    await crashing.start(plug_in=kinds)
    assert await crashing.await_all_ended([job_id]) == {job_id: "completed"}
    (tmp_path / "key.released").touch()
    first.process.send_signal(signal.SIGCONT)
    await crashing.await_word(first, "attempt_stale")
    record = await crashing.record(job_id)
    assert [attempt.state for attempt in record.attempts] == ["lost", "completed"]
    assert record.result == {"result": "done"}
    await crashing.check()
    # It is no worse for it.
    assert await crashing.await_all_ended([await crashing.enqueue_planted("next")])
    first.check()


async def test_after_a_kill_in_a_handler_the_job_is_taken_up_within_a_lock_and_a_scan(
    crashing: World, tmp_path: Path
) -> None:
    """Goal: the bound of a crash: QUEUE_LOCK_SECONDS for the lock to run out, and one stalled scan, which moves what an
    earlier one has marked. Method: SIGKILL in the middle of a handler, a sibling idle beside; PostgreSQL's clock."""
    kinds = planted(tmp_path)
    first = await crashing.start(plug_in=kinds)
    job_id = await crashing.enqueue_planted("key", do="wait_first", folder=str(tmp_path))
    await until((tmp_path / "key.begun").exists, seconds=30, what="the handler to begin")
    sibling = await crashing.start(plug_in=kinds)
    await crashing.await_word(sibling, "started")
    # The lock was renewed and a scan has marked the record meanwhile, as in any handler that runs for a while.
    await trio.sleep(LOCK_SECONDS)
    killed_at = await crashing.now()
    first.kill()
    assert await crashing.await_all_ended([job_id]) == {job_id: "completed"}
    lost, taken_up = (await crashing.record(job_id)).attempts
    assert lost.state == "lost"
    bound = timedelta(seconds=LOCK_SECONDS + SCAN_SECONDS + SLACK_SECONDS)
    assert taken_up.started_at - killed_at <= bound, taken_up.started_at - killed_at


async def test_after_a_restart_of_redis_work_goes_on_within_the_poll(
    crashing: World, tmp_path: Path, redis_server: Launched
) -> None:
    """Goal: nobody needs to restart anything. Method: an idle replica; Redis is killed and comes back empty; a job that
    it had lost is delivered again at its check, a new one at the next poll."""
    replica = await crashing.start(plug_in=planted(tmp_path))
    await crashing.await_all_ended([await crashing.enqueue_planted("warm")])
    lost = await crashing.enqueue_planted("lost", do="fail_once", folder=str(tmp_path))
    await crashing.await_state(lost, "retry")
    redis_server.restart(signal.SIGKILL)
    restarted_at = await crashing.now()
    new = await crashing.enqueue_planted("new")
    assert await crashing.await_all_ended([lost, new]) == {lost: "completed", new: "completed"}
    (started,) = (attempt.started_at for attempt in (await crashing.record(new)).attempts)
    assert started - restarted_at <= timedelta(seconds=POLL_SECONDS + SLACK_SECONDS)
    started = (await crashing.record(lost)).attempts[-1].started_at
    assert started - restarted_at <= timedelta(seconds=RECONCILE_SECONDS + POLL_SECONDS + SLACK_SECONDS)
    replica.check()


@pytest.mark.waits
async def test_a_job_due_in_seven_seconds_starts_on_time_after_a_long_idleness(crashing: World, tmp_path: Path) -> None:
    """Goal: no blocking wait outlives its welcome, and none delays a delayed job. Method: a replica idle for more than
    two of its waits in Redis; then a job that is due in seven seconds."""
    await crashing.start(plug_in=planted(tmp_path))
    await crashing.await_all_ended([await crashing.enqueue_planted("warm")])
    await trio.sleep(2.2 * BLOCK_SECONDS)
    run_at = await crashing.now() + timedelta(seconds=7)
    job_id = await crashing.enqueue_planted("later", run_at=run_at)
    assert await crashing.await_all_ended([job_id]) == {job_id: "completed"}
    (attempt,) = (await crashing.record(job_id)).attempts
    assert timedelta() <= attempt.started_at - run_at < timedelta(seconds=1)
