"""Workers whose clocks are an hour off: nothing begins early, nothing is late beyond the delivery check (DLV-11)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from uuid import UUID

import pytest

from tayho.coordination.types import AttemptRecord
from tayho.demo.fleet import Replica
from tests.crash.planted import planted
from tests.crash.world import World

pytestmark = [pytest.mark.crash, pytest.mark.services]

# The first wait of a retry is half a second to one, less what a statement takes between two looks at the clock; the
# delivery check comes every QUEUE_RECONCILE_SECONDS.
BACKOFF_SECONDS_MIN = 0.45
RECONCILE_SECONDS = 2.0
POLL_SECONDS = 1.0
SLACK_SECONDS = 2.0
LATE_MAX = timedelta(seconds=RECONCILE_SECONDS + POLL_SECONDS + SLACK_SECONDS)


def _libfaketime() -> str:
    (library,) = Path("/usr/lib").glob("*/faketime/libfaketime.so.1")
    return str(library)


async def _start(world: World, kinds: str, hours: int) -> Replica:
    """A replica whose clock is so many hours ahead; how fast it runs is as ever."""
    if hours == 0:
        return await world.start(plug_in=kinds)
    return await world.start(
        plug_in=kinds,
        LD_PRELOAD=_libfaketime(),
        FAKETIME=f"{hours:+d}h",
        FAKETIME_DONT_FAKE_MONOTONIC="1",
    )


async def _enqueue(world: World, folder: Path, count: int) -> dict[UUID, datetime]:
    """Jobs that fail once and then complete, by when each is due: over the next seconds."""
    now = await world.now()
    due = [now + timedelta(seconds=1 + number / 4) for number in range(count)]
    return {
        await world.enqueue_planted(f"key-{number}", do="fail_once", folder=str(folder), run_at=run_at): run_at
        for number, run_at in enumerate(due)
    }


def _check_on_time(attempts: Sequence[AttemptRecord], run_at: datetime) -> None:
    due_at = run_at
    for attempt in attempts:
        late = attempt.started_at - due_at
        assert timedelta() <= late <= LATE_MAX, f"attempt {attempt.attempt_number}: {late} late"
        assert attempt.ended_at is not None
        due_at = attempt.ended_at + timedelta(seconds=BACKOFF_SECONDS_MIN)


@pytest.mark.parametrize("hours", [(1,), (-1,), (1, -1, 0)], ids=str)
async def test_clocks_an_hour_off_make_nothing_early_and_nothing_late(
    crashing: World, tmp_path: Path, hours: tuple[int, ...]
) -> None:
    """Goal: DLV-11. Method: replicas with such clocks, alone and beside right ones, share jobs that are due in a few
    seconds and fail once: first attempts and retries are timed by PostgreSQL's clock."""
    kinds = planted(tmp_path)
    replicas = [await _start(crashing, kinds, each) for each in hours]
    for replica in replicas:
        await crashing.await_word(replica, "started")
    run_at = await _enqueue(crashing, tmp_path, 12)
    states = await crashing.await_all_ended(list(run_at))
    assert set(states.values()) == {"completed"}
    for job_id, due_at in run_at.items():
        _check_on_time((await crashing.record(job_id)).attempts, due_at)


@pytest.mark.parametrize(("first", "then"), [(1, 0), (0, -1)])
async def test_a_retry_outlives_the_clock_that_delayed_it(
    crashing: World, tmp_path: Path, first: int, then: int
) -> None:
    """Goal: a delay that one machine's clock gave is not an hour for another's. Method: a replica fails a job, which
    BullMQ delays on that replica's clock, and is killed; the one that comes has a clock an hour behind it."""
    kinds = planted(tmp_path)
    doomed = await _start(crashing, kinds, first)
    await crashing.await_word(doomed, "started")
    job_id = await crashing.enqueue_planted("key", do="fail_once", folder=str(tmp_path))
    await crashing.await_state(job_id, "retry", "completed")
    doomed.kill()
    heir = await _start(crashing, kinds, then)
    await crashing.await_word(heir, "started")
    assert await crashing.await_all_ended([job_id], LATE_MAX.total_seconds()) == {job_id: "completed"}
