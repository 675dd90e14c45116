"""What ended long ago gives up what nobody reads any more; what is promised of it stays true."""

from __future__ import annotations

import time
from typing import Any
from uuid import UUID

import pytest
import trio

from storage.errors import Refused
from tayho.coordination import producing
from tayho.coordination import retention as retention_room
from tayho.coordination.attempts import End, Ends, EndVerdict
from tayho.coordination.retention import SET_ASIDE_FACTOR, Retention
from tayho.coordination.types import IdempotencyConflict
from tayho.kernel.ids import new_id
from tests.coordination.conftest import CHAIN_ID, ENVIRONMENT, SETTINGS, Plane, new_job
from tests.services.ballast import past_triggers

DAYS = 30
DAY = 24 * 3600
AGE = """
UPDATE coordination.jobs
SET created_at = created_at - $2 * interval '1 day', updated_at = updated_at - $2 * interval '1 day',
    ended_at = ended_at - $2 * interval '1 day'
WHERE job_id = $1
"""
A_WEEK_LATER = "UPDATE coordination.retention SET swept_at = swept_at - interval '8 days'"
MANY_ATTEMPTS = """
INSERT INTO coordination.attempts (job_id, attempt_number, generation, token, worker_id, state, ended_at)
SELECT $1, n, 1, 'a-token-of-the-past', $2, CASE WHEN n < $3 THEN 'returned' ELSE 'running' END,
    CASE WHEN n < $3 THEN now() END
FROM generate_series(1, $3) AS n
"""
ITS_JOB = """
UPDATE coordination.jobs
SET state = 'processing', attempt_number = $3, attempt_token = 'a-token-of-the-past', attempt_worker_id = $2
WHERE job_id = $1
"""


def an_id_of(days_ago: float) -> UUID:
    """An id as a producer makes it whose clock is so far behind."""
    milliseconds = int((time.time() - days_ago * DAY) * 1_000)
    return UUID(int=new_id().int & ((1 << 80) - 1) | max(milliseconds, 0) << 80)


class Past:
    """Jobs that ended so long ago as the test says, made through the ordinary doors and then aged."""

    def __init__(self, plane: Plane, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
        self.plane = plane
        self._url = url
        self._monkeypatch = monkeypatch

    async def open_job(self, key: str, *, days_ago: float, id_days_ago: float | None = None) -> UUID:
        """A job that was enqueued then and is queued since."""
        made = an_id_of(days_ago if id_days_ago is None else id_days_ago)
        with self._monkeypatch.context() as patch:
            patch.setattr(producing, "new_id", lambda: made)
            job_id = await self.plane.enqueue(key)
        await self.execute(AGE, job_id, days_ago)
        return job_id

    async def job(
        self,
        key: str,
        *,
        days_ago: float = DAYS + 10,
        id_days_ago: float | None = None,
        verdict: EndVerdict = "completed",
    ) -> UUID:
        """A job that was enqueued and ended then."""
        job_id = await self.open_job(key, days_ago=0, id_days_ago=days_ago if id_days_ago is None else id_days_ago)
        await self.end(job_id, verdict)
        await self.execute(AGE, job_id, days_ago)
        return job_id

    async def end(self, job_id: UUID, verdict: EndVerdict = "completed") -> None:
        begun = await self.plane.begin(job_id, await self.plane.worker())
        assert begun.attempt is not None
        end = End(begun.attempt, verdict, {"result": "a document"})
        await Ends(self.plane.database, SETTINGS.attempts_max).end_all_if_current([end])

    async def execute(self, sql: str, *arguments: object) -> None:
        async with past_triggers(self._url) as connection:
            await connection.execute(sql, *arguments)

    async def value(self, sql: str, *arguments: object) -> Any:
        async with self.plane.database.connection() as connection:
            return await connection.fetchval(sql, *arguments)

    async def archived(self) -> set[UUID]:
        """The jobs that retention has been at."""
        sql = "SELECT array_agg(job_id) FROM coordination.jobs WHERE archived_at IS NOT NULL"
        return set(await self.value(sql) or ())

    async def walk(self) -> int:
        """Archive until the walk has come to the present; the pages that it took."""
        retention = self.retention()
        pages = 1
        while (page := await retention.archive_page()) is not None and page.is_more:
            pages += 1
        return pages

    def retention(self) -> Retention:
        return Retention(self.plane.database, CHAIN_ID, ENVIRONMENT, DAYS)


@pytest.fixture
def past(plane: Plane, database_url: str, monkeypatch: pytest.MonkeyPatch) -> Past:
    return Past(plane, database_url, monkeypatch)


async def test_a_job_that_ended_long_ago_gives_up_its_documents_and_attempts(past: Past) -> None:
    """Goal: the tables' weight is bounded by time, and no younger job loses anything. Method: one job ended before the
    limit, one a day after it, one that began before and has not ended."""
    old, young = await past.job("old"), await past.job("young", days_ago=DAYS - 1)
    unfinished = await past.open_job("open", days_ago=DAYS + 10)
    await past.walk()
    assert await past.archived() == {old}
    record = await past.plane.coordination.inspect(old)
    assert record is not None
    assert (record.state, record.request, record.result, record.last_error) == ("completed", {}, None, None)
    assert (record.attempts, record.attempt_number, record.idempotency_key) == ((), 1, "old")
    for job_id in (young, unfinished):
        kept = await past.plane.coordination.inspect(job_id)
        assert kept is not None
        assert kept.request == {"n": 1}
        assert len(kept.attempts) == kept.attempt_number


async def test_an_archived_jobs_key_still_answers(past: Past) -> None:
    """Goal: a key stands for its effect for ever (I7). Method: after the archive, the same request is answered with the
    same job, another one is refused."""
    old = await past.job("old")
    await past.walk()
    again = await past.plane.coordination.enqueue(new_job("old"))
    assert (again.job_id, again.created, again.state) == (old, False, "completed")
    with pytest.raises(IdempotencyConflict):
        await past.plane.coordination.enqueue(new_job("old", n=2))


async def test_an_archived_job_is_archived_once_and_is_immutable_otherwise(past: Past) -> None:
    """Goal: retention is no door for anything else. Method: archive twice; then delete an attempt, and archive a job,
    without the operation's name."""
    old, young = await past.job("old"), await past.job("young", days_ago=0)
    await past.walk()
    at = await past.value("SELECT archived_at FROM coordination.jobs WHERE job_id = $1", old)
    await past.execute("DELETE FROM coordination.retention")
    await past.walk()
    assert await past.value("SELECT archived_at FROM coordination.jobs WHERE job_id = $1", old) == at
    with pytest.raises(Refused):
        await past.value("DELETE FROM coordination.attempts WHERE job_id = $1", young)
    with pytest.raises(Refused):
        await past.value("UPDATE coordination.jobs SET archived_at = now(), request = '{}' WHERE job_id = $1", young)


async def test_what_waits_for_a_person_is_kept_four_times_as_long(past: Past) -> None:
    """Goal: a dead or quarantined job can be looked at and replayed for long. Method: one of either age."""
    kept = await past.job("kept", days_ago=SET_ASIDE_FACTOR * DAYS - 1, verdict="quarantined")
    given_up = await past.job("given up", days_ago=SET_ASIDE_FACTOR * DAYS + 1, verdict="quarantined")
    await past.walk()
    assert await past.archived() == {given_up}
    assert await past.plane.state(kept) == "quarantined"


async def test_the_walk_goes_page_by_page_and_starts_over_for_what_it_passed_by(
    past: Past, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Goal: no page is long, and no job is passed by for ever. Method: pages of three over eight jobs, one of which is
    open; it ends and grows old; only once the week is over is it found."""
    monkeypatch.setattr(retention_room, "PAGE", 3)
    ended = {await past.job(f"key-{number}") for number in range(7)}
    late = await past.open_job("late", days_ago=DAYS + 20)
    assert await past.walk() == 3
    assert await past.archived() == ended
    await past.end(late)
    await past.execute(AGE, late, DAYS + 10)
    await past.walk()
    assert await past.archived() == ended
    await past.execute(A_WEEK_LATER)
    await past.walk()
    await past.walk()
    assert await past.archived() == {*ended, late}


@pytest.mark.parametrize("id_days_ago", [56 * 365, -80 * 365, -5], ids=["1970", "in 80 years", "next week"])
async def test_a_producers_wrong_clock_neither_hides_a_job_nor_ages_it(past: Past, id_days_ago: int) -> None:
    """Goal: only PostgreSQL's clock tells a job's age. Method: two jobs whose ids tell another time, one old and one
    young, between right ones; within one walk over, the old one is archived, and the young one is not."""
    before = await past.job("before", days_ago=DAYS + 11)
    old = await past.job("old", id_days_ago=id_days_ago)
    await past.job("young", days_ago=1, id_days_ago=id_days_ago)
    after = await past.job("after", days_ago=DAYS + 9)
    await past.walk()
    await past.execute(A_WEEK_LATER)
    await past.walk()
    await past.walk()
    assert await past.archived() == {before, old, after}


async def test_two_replicas_share_the_walk_and_never_wait_for_each_other(
    past: Past, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Goal: any number may run. Method: while one holds the cursor, another is told at once that there is nothing for
    it; then four walk at the same time, and each job is archived by one."""
    monkeypatch.setattr(retention_room, "PAGE", 2)
    job_ids = {await past.job(f"key-{number}") for number in range(9)}
    first = await past.retention().archive_page()
    assert first is not None
    async with past.plane.database.transaction() as tx:
        await tx.execute("SELECT FROM coordination.retention FOR UPDATE")
        assert await past.retention().archive_page() is None
    counted = [first.archived]

    async def walk() -> None:
        retention = past.retention()
        while await past.archived() != job_ids:
            page = await retention.archive_page()
            counted.append(page.archived if page else 0)

    async with trio.open_nursery() as replicas:
        for _ in range(4):
            replicas.start_soon(walk)
    assert sum(counted) == len(job_ids)


async def test_a_job_that_somebody_holds_is_passed_by(past: Past) -> None:
    """Goal: retention waits for nobody and lets nobody wait. Method: one of two old jobs is locked, as by a replay."""
    held, free = await past.job("held"), await past.job("free")
    async with past.plane.database.transaction() as tx:
        await tx.execute("SELECT FROM coordination.jobs WHERE job_id = $1 FOR UPDATE", held)
        with trio.fail_after(10):
            await past.walk()
    assert await past.archived() == {free}


async def test_another_scopes_jobs_are_left_alone(past: Past) -> None:
    """Goal: a setting of one environment touches no other. Method: the walk of another environment over our jobs."""
    await past.job("ours")
    other = Retention(past.plane.database, CHAIN_ID, "other", DAYS)
    page = await other.archive_page()
    assert page is not None
    assert page.archived == 0
    assert await past.archived() == set()


async def test_a_job_that_goes_on_for_ever_keeps_its_newest_attempts(
    past: Past, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Goal: no job grows without bound. Method: one in its twelfth attempt, one in its third; five are kept."""
    monkeypatch.setattr(retention_room, "ATTEMPTS_KEPT", 5)
    monkeypatch.setattr(retention_room, "PAGE", 1)
    worker_id = await past.plane.worker()
    for key, number in (("long", 12), ("short", 3)):
        job_id = await past.plane.enqueue(key)
        await past.execute(MANY_ATTEMPTS, job_id, worker_id, number)
        await past.execute(ITS_JOB, job_id, worker_id, number)
    retention = past.retention()
    assert [await retention.trim_page() for _ in range(4)].count(0) == 3
    sql = (
        "SELECT array_agg(attempt_number ORDER BY attempt_number) AS kept "
        "FROM coordination.attempts GROUP BY job_id ORDER BY 1"
    )
    async with past.plane.database.connection() as connection:
        assert [row["kept"] for row in await connection.fetch(sql)] == [[1, 2, 3], [8, 9, 10, 11, 12]]


async def test_a_worker_that_is_gone_for_long_goes_with_its_last_attempt(past: Past) -> None:
    """Goal: restarts leave no rows for ever, and no attempt loses its worker's name. Method: one stopped and one silent
    for long, one of them with an attempt; one that is alive; then its job is archived."""
    job_id = await past.job("old")
    stopped, silent, alive = [await past.plane.worker() for _ in range(3)]
    await past.execute("UPDATE coordination.workers SET heartbeat_at = now() - interval '40 days'")
    await past.execute("UPDATE coordination.workers SET heartbeat_at = now() WHERE worker_id = $1", alive)
    await past.execute(
        "UPDATE coordination.workers SET stopped_at = now() - interval '31 days' WHERE worker_id = $1", stopped
    )
    assert await past.retention().reap_workers() == 2
    remaining = await past.value("SELECT array_agg(worker_id) FROM coordination.workers")
    assert alive in remaining
    assert not {stopped, silent} & set(remaining)
    record = await past.plane.coordination.inspect(job_id)
    assert record is not None
    assert [attempt.instance_id for attempt in record.attempts] == ["by hand"]
    await past.walk()
    assert await past.retention().reap_workers() == 1


async def test_a_turn_does_all_of_it(past: Past, monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: the service does what its parts can. Method: turns until there is no more; then a week later, so that the
    walk ends, after which the workers are reaped."""
    monkeypatch.setattr(retention_room, "PAGE", 2)
    job_ids = {await past.job(f"key-{number}") for number in range(5)}
    await past.execute("UPDATE coordination.workers SET heartbeat_at = now() - interval '40 days'")

    async def turns() -> None:
        retention = past.retention()
        while await retention.turn():
            pass

    await turns()
    assert await past.archived() == job_ids
    await past.execute(A_WEEK_LATER)
    await turns()
    assert await past.value("SELECT count(*) FROM coordination.workers") == 0
