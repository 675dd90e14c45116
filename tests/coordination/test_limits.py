"""Limits and fairness: what one key may have at once, and what it cannot take from the others (DLV-15)."""

from __future__ import annotations

from collections import Counter
from functools import partial
from uuid import UUID

import pytest
import trio
from attrs import evolve

from storage.database import Database
from tayho.coordination.control.throttles import Throttles
from tayho.coordination.control.types import Deed, Limit
from tayho.coordination.module import Coordination
from tayho.coordination.types import NewJob
from tayho.kernel.jobs import Attempt, Completed, Job, Outcome
from tests.coordination.conftest import CHAIN_ID, ENVIRONMENT, ROLE, SETTINGS, Plane
from tests.coordination.test_worker import at_work
from tests.waiting import until

DEED = Deed("ada", "a test")


def throttles_of(plane: Plane) -> Throttles:
    return Throttles(plane.database, CHAIN_ID, ENVIRONMENT)


async def enqueue_of(plane: Plane, limit_key: str | None, count: int, *, priority: int = 1_000) -> list[UUID]:
    """So many jobs of a key, in calls of a thousand."""
    jobs = [NewJob("kind", ROLE, f"{limit_key}-{n}", {}, priority=priority, limit_key=limit_key) for n in range(count)]
    enqueued: list[UUID] = []
    for start in range(0, count, 1_000):
        answers = await plane.coordination.enqueue_many(jobs[start : start + 1_000])
        enqueued += [answer.job_id for answer in answers]
    return enqueued


async def published(plane: Plane) -> Counter[str]:
    """How many jobs of each key count against its limits now."""
    async with plane.database.connection() as connection:
        rows = await connection.fetch(
            "SELECT coalesce(limit_key, '') AS limit_key, count(*) AS jobs FROM coordination.outbox"
            " WHERE published_at IS NOT NULL GROUP BY 1"
        )
    return Counter({row["limit_key"]: row["jobs"] for row in rows})


async def set_full_at(plane: Plane, limit_key: str, expression: str) -> None:
    """Move the key's bucket in time, instead of waiting."""
    async with plane.database.connection() as connection:
        await connection.execute(
            f"UPDATE coordination.limits SET full_at = {expression} WHERE limit_key = $1", limit_key
        )


async def publish_all(plane: Plane) -> None:
    """Publish until nothing more may be."""
    publisher = plane.publisher()
    while await publisher.publish_due():
        pass


async def test_a_flood_does_not_hold_up_another_key(plane: Plane) -> None:
    """Goal: one tenant's flood moves another by a stated bound. Method: three thousand jobs of A; when the worker is in
    the middle of them, twenty of B; at most a fair window of A, and what runs then, starts before the last of B."""
    flood = await enqueue_of(plane, "A", 3_000)
    begun = 0

    async def handle(job: Job, attempt: Attempt) -> Outcome:
        nonlocal begun
        begun += 1
        await trio.lowlevel.checkpoint()
        return Completed()

    async with at_work(plane, handle):
        await until(lambda: begun > 200, seconds=30, what="the flood to be in full flow")
        others = await enqueue_of(plane, "B", 20)

        async def through() -> bool:
            async with plane.database.connection() as connection:
                return not await connection.fetchval(
                    "SELECT count(*) FROM coordination.jobs WHERE job_id = ANY ($1) AND state <> 'completed'", others
                )

        await until(through, seconds=30, what="the jobs of B to complete")
    async with plane.database.connection() as connection:
        rows = await connection.fetch(
            "SELECT others.job_id, (SELECT count(*) FROM coordination.attempts AS floods"
            "  WHERE floods.job_id = ANY ($1) AND floods.started_at > jobs.created_at"
            "  AND floods.started_at < others.started_at) AS before"
            " FROM coordination.attempts AS others JOIN coordination.jobs AS jobs USING (job_id)"
            " WHERE others.job_id = ANY ($2)",
            flood,
            others,
        )
    assert len(rows) == 20
    # What is published of A when B comes, and what takes its place before B's are published.
    bound = 2 * SETTINGS.fair_window + SETTINGS.concurrency
    assert max(row["before"] for row in rows) <= bound, sorted(row["before"] for row in rows)
    assert len(flood) > 10 * bound, "the flood must be able to break the bound"


async def test_a_key_without_a_number_has_its_fair_window(plane: Plane) -> None:
    """Goal: a flood is bounded where nobody set a limit; what has no key is not. Method: publish all that may be."""
    await enqueue_of(plane, "A", 100)
    await enqueue_of(plane, None, 100)
    await publish_all(plane)
    assert await published(plane) == {"A": SETTINGS.fair_window, "": 100}


async def test_the_limit_holds_exactly_while_three_publishers_race(plane: Plane, database_url: str) -> None:
    """Goal: never more than the number at once, and never fewer while there is work. Method: a limit of three; three
    publishers and a worker of eight over sixty jobs; each handler counts what PostgreSQL holds as published."""
    await throttles_of(plane).set_limit("A", Limit(concurrent_max=3), DEED)
    await enqueue_of(plane, "A", 60)
    seen: list[int] = []
    running = most = 0

    async def handle(job: Job, attempt: Attempt) -> Outcome:
        nonlocal running, most
        running += 1
        most = max(most, running)
        seen.append((await published(plane))["A"])
        running -= 1
        return Completed()

    others = Database.open(database_url, pool_size=4, application_name="other publishers")
    async with others as database, at_work(plane, handle) as work, trio.open_nursery() as publishers:
        # As two more processes, whose connections are their own.
        for _ in range(2):
            other = Coordination(database, plane.queue_of, CHAIN_ID, ENVIRONMENT, SETTINGS)
            publishers.start_soon(other.publish, work.drain)

        async def all_completed() -> bool:
            return (await plane.coordination.count_by_state()).get("completed") == 60

        await until(all_completed, seconds=40, what="sixty completed jobs")
        publishers.cancel_scope.cancel()
    assert max(seen) == 3
    assert most <= 3
    assert len(seen) == 60


async def test_racing_publishers_never_pass_a_limit(plane: Plane) -> None:
    """Goal: the counting sees what the last holder of the key's lock committed. Method: ten publishers at once, again
    and again, over a limit of five, while nothing ends."""
    await throttles_of(plane).set_limit("A", Limit(concurrent_max=5), DEED)
    await enqueue_of(plane, "A", 200)
    for _ in range(5):
        async with trio.open_nursery() as racers:
            for _ in range(10):
                racers.start_soon(plane.publisher().publish_due)
        assert await published(plane) == {"A": 5}


async def test_a_key_that_another_decides_over_is_left_to_it(plane: Plane) -> None:
    """Goal: two publishers never count the same room. Method: the key's limits are locked, as by a publisher in the
    middle of its claim: another one publishes nothing of the key, and does not wait; afterwards it does."""
    await throttles_of(plane).set_limit("A", Limit(concurrent_max=5), DEED)
    await enqueue_of(plane, "A", 20)
    async with plane.database.transaction() as holder:
        await holder.execute("SELECT FROM coordination.limits WHERE limit_key = 'A' FOR UPDATE")
        with trio.fail_after(5):
            await plane.publisher().publish_due()
        assert await published(plane) == {}
    await plane.publisher().publish_due()
    assert await published(plane) == {"A": 5}


async def test_a_lowered_limit_calls_nothing_back_and_a_raised_one_starts_more(plane: Plane) -> None:
    """Goal: numbers may change at any time. Method: five, then two, then seven; then none, which is the fair window."""
    throttles = throttles_of(plane)
    await enqueue_of(plane, "A", 100)
    for limit, expected in ((5, 5), (2, 5), (7, 7)):
        await throttles.set_limit("A", Limit(concurrent_max=limit), DEED)
        await publish_all(plane)
        assert (await published(plane))["A"] == expected
    assert await throttles.remove_limit("A", DEED)
    assert not await throttles.remove_limit("A", DEED)
    await publish_all(plane)
    assert (await published(plane))["A"] == SETTINGS.fair_window


@pytest.mark.parametrize(("rate_max", "rate_seconds"), [(10, 60), (7, 86_400), (3, 1_000), (1, 600)])
async def test_a_bucket_gives_exactly_its_starts(plane: Plane, rate_max: int, rate_seconds: int) -> None:
    """Goal: the rate is exact, by PostgreSQL's clock, for periods that no binary fraction holds too. Method: a full
    bucket gives its starts and none more; then the bucket's own time is moved, half a start short of one, and past."""
    throttles = throttles_of(plane)
    await throttles.set_limit("A", Limit(concurrent_max=1_000, rate_max=rate_max, rate_seconds=rate_seconds), DEED)
    await enqueue_of(plane, "A", 3 * rate_max + 5)
    for _ in range(3):
        await publish_all(plane)
        assert (await published(plane))["A"] == rate_max
    start_seconds = rate_seconds / rate_max
    almost = f"full_at - make_interval(secs => {0.5 * start_seconds})"
    await set_full_at(plane, "A", almost)
    await publish_all(plane)
    assert (await published(plane))["A"] == rate_max, "half a start is none"
    await set_full_at(plane, "A", almost)
    await publish_all(plane)
    assert (await published(plane))["A"] == rate_max + 1
    await set_full_at(plane, "A", "now() - interval '10 years'")
    await publish_all(plane)
    assert (await published(plane))["A"] == 2 * rate_max + 1, "a bucket holds no more than the whole of it"


async def test_the_starts_of_a_moment_are_counted_together(plane: Plane) -> None:
    """Goal: no drift. Method: after the starts of a full bucket, its time is exactly one period from the claim."""
    await throttles_of(plane).set_limit("A", Limit(rate_max=7, rate_seconds=86_400), DEED)
    await enqueue_of(plane, "A", 20)
    await publish_all(plane)
    async with plane.database.connection() as connection:
        off_seconds = await connection.fetchval(
            "SELECT abs(extract(epoch FROM limits.full_at - max(outbox.published_at)) - 86400)::float8"
            " FROM coordination.limits AS limits JOIN coordination.outbox AS outbox USING (limit_key)"
            " WHERE outbox.published_at IS NOT NULL GROUP BY limits.full_at"
        )
    assert off_seconds < 1e-5


async def test_a_new_rate_owes_at_most_one_period(plane: Plane) -> None:
    """Goal: what was taken under old numbers does not bind a key for longer than its new ones. Method: empty a bucket
    of a day, then set ten in a minute: in a minute it is full."""
    throttles = throttles_of(plane)
    await throttles.set_limit("A", Limit(rate_max=2, rate_seconds=86_400), DEED)
    await enqueue_of(plane, "A", 40)
    await publish_all(plane)
    await throttles.set_limit("A", Limit(concurrent_max=100, rate_max=10, rate_seconds=60), DEED)
    await set_full_at(plane, "A", "full_at - interval '60 seconds'")
    await publish_all(plane)
    assert (await published(plane))["A"] == 12


async def test_no_key_hides_behind_others(plane: Plane) -> None:
    """Goal: nothing starves for the number of keys. Method: a flood that is over its limit and older than all, and a
    job each of four hundred and fifty keys; publish once through: every key has its job out."""
    await throttles_of(plane).set_limit("m-flood", Limit(concurrent_max=1), DEED)
    await enqueue_of(plane, "m-flood", 300)
    jobs = [NewJob("kind", ROLE, f"one-{n}", {}, limit_key=f"key-{n:03}") for n in range(450)]
    await plane.coordination.enqueue_many(jobs)
    await publish_all(plane)
    found = await published(plane)
    assert found.pop("m-flood") == 1
    assert found == {f"key-{n:03}": 1 for n in range(450)}
    counts = await plane.queue.counts()
    assert counts["prioritized"] == 451


async def test_keys_beyond_a_page_of_full_ones_wait_for_no_poll(plane: Plane) -> None:
    """Goal: a walk that finds no room goes on. Method: two hundred and fifty keys that are over their limits, then one
    more that comes after them all; one round of publishing has its job out."""
    jobs = [NewJob("kind", ROLE, f"{n}-{m}", {}, limit_key=f"full-{n:03}") for n in range(250) for m in range(2)]
    await plane.coordination.enqueue_many(jobs)
    async with plane.database.connection() as connection:
        await connection.execute(
            "INSERT INTO coordination.limits (chain_id, environment, limit_key, concurrent_max)"
            " SELECT $1, $2, 'full-' || lpad(n::text, 3, '0'), 1 FROM generate_series(0, 249) AS n",
            CHAIN_ID,
            ENVIRONMENT,
        )
    await publish_all(plane)
    await enqueue_of(plane, "later", 1)
    await publish_all(plane)
    found = await published(plane)
    assert found["later"] == 1
    assert sum(found.values()) == 251


async def test_an_urgent_job_goes_first_within_its_key_until_the_others_have_aged(plane: Plane) -> None:
    """Goal: a minute of waiting halves a priority number, within a key too. Method: a limit of one; a job of number
    1000, then one of number 250: the second is published. Then the first has waited three minutes: it is."""
    await throttles_of(plane).set_limit("A", Limit(concurrent_max=1), DEED)
    for name, back, first in (("fresh", 0, "urgent"), ("aged", 3, "slow")):
        slow = NewJob("kind", ROLE, f"{name}-slow", {}, priority=1_000, limit_key="A")
        urgent = NewJob("kind", ROLE, f"{name}-urgent", {}, priority=250, limit_key="A")
        ids = {
            "slow": (await plane.coordination.enqueue(slow)).job_id,
            "urgent": (await plane.coordination.enqueue(urgent)).job_id,
        }
        async with plane.database.connection() as connection:
            await connection.execute(
                "UPDATE coordination.outbox SET rank_at = rank_at - make_interval(mins => $2) WHERE job_id = $1",
                ids["slow"],
                back,
            )
        await plane.publisher().publish_due()
        async with plane.database.connection() as connection:
            row = await connection.fetchrow("SELECT job_id FROM coordination.outbox WHERE published_at IS NOT NULL")
            assert row is not None
            assert row["job_id"] == ids[first]
            await connection.execute("DELETE FROM coordination.outbox")


async def _served(plane: Plane, count: int) -> list[UUID]:
    deliveries = await plane.queue.fetch(count)
    return [UUID(str(delivery.data["job_id"])) for delivery in deliveries]


async def _wait_for(plane: Plane, job_id: UUID, minutes: int) -> None:
    """Let the job have waited for so long, and let the delivery check look at it now."""
    async with plane.database.connection() as connection:
        await connection.execute(
            "UPDATE coordination.jobs SET run_at = now() - make_interval(mins => $2) WHERE job_id = $1", job_id, minutes
        )
        await connection.execute(
            "UPDATE coordination.outbox SET due_at = now(),"
            " published_at = CASE WHEN limit_key IS NULL THEN published_at"
            "                ELSE published_at - make_interval(mins => $2) END WHERE job_id = $1",
            job_id,
            minutes,
        )


@pytest.mark.parametrize("limit_key", [None, "A"], ids=["no key", "a limit key"])
async def test_a_waiting_job_overtakes_fresh_urgent_ones_once_it_has_aged(plane: Plane, limit_key: str | None) -> None:
    """Goal: nothing starves behind a stream of urgent work. Method: a job of number 1000 waits; jobs of number 300
    come; after one minute it is still behind them, after two its number is 250, and the delivery check says so."""
    (slow,) = await enqueue_of(plane, limit_key, 1)
    await publish_all(plane)
    urgent = await enqueue_of(plane, "urgent", 3, priority=300)
    await publish_all(plane)
    await _wait_for(plane, slow, 1)
    await publish_all(plane)
    assert (await _served(plane, 1))[0] in urgent
    await _wait_for(plane, slow, 2)
    await publish_all(plane)
    assert await _served(plane, 1) == [slow]


async def test_the_backlog_of_a_flood_does_not_age_past_fresh_jobs(plane: Plane) -> None:
    """Goal: waiting for one's own limit earns nothing against others. Method: a flood of A waits for an hour behind its
    window; a fresh job of B, then room for one more of A, then a delivery check of both: B's is served first."""
    await throttles_of(plane).set_limit("A", Limit(concurrent_max=1), DEED)
    flood = await enqueue_of(plane, "A", 10)
    async with plane.database.connection() as connection:
        await connection.execute("UPDATE coordination.jobs SET run_at = now() - interval '1 hour'")
        await connection.execute("UPDATE coordination.outbox SET due_at = now() - interval '1 hour'")
    await publish_all(plane)
    assert (await _served(plane, 1))[0] in flood
    (fresh,) = await enqueue_of(plane, "B", 1)
    await publish_all(plane)
    await throttles_of(plane).set_limit("A", Limit(concurrent_max=2), DEED)
    await publish_all(plane)
    await plane.make_due()
    await publish_all(plane)
    assert (await published(plane)) == {"A": 2, "B": 1}
    assert await _served(plane, 1) == [fresh]


async def test_a_freed_place_is_taken_at_once(plane: Plane) -> None:
    """Goal: a limit costs no poll a job. Method: a limit of one, polls a minute apart; ten jobs are through soon."""
    await throttles_of(plane).set_limit("A", Limit(concurrent_max=1), DEED)
    await enqueue_of(plane, "A", 10)

    async def handle(job: Job, attempt: Attempt) -> Outcome:
        await trio.lowlevel.checkpoint()
        return Completed()

    settings = evolve(SETTINGS, poll_milliseconds=60_000)
    rarely = Coordination(plane.database, plane.queue_of, CHAIN_ID, ENVIRONMENT, settings)
    async with at_work(Plane(plane.database, plane.queue_of, rarely), handle):

        async def all_completed() -> bool:
            return (await plane.coordination.count_by_state()).get("completed") == 10

        await until(all_completed, seconds=10, what="ten completed jobs")


async def test_limits_are_listed_with_what_they_hold_back(plane: Plane) -> None:
    """Goal: an operator sees who waits for what. Method: a key with numbers and jobs, one with jobs alone, one with
    numbers alone."""
    throttles = throttles_of(plane)
    await throttles.set_limit("A", Limit(concurrent_max=2, rate_max=10, rate_seconds=86_400), DEED)
    await throttles.set_limit("idle", Limit(rate_max=1, rate_seconds=1), DEED)
    await enqueue_of(plane, "A", 5)
    await enqueue_of(plane, "B", 1)
    await publish_all(plane)
    lines = {line.limit_key: line for line in await throttles.list_limits()}
    assert (lines["A"].in_flight, lines["A"].waiting, lines["A"].starts_left) == (2, 3, 8)
    assert (lines["B"].in_flight, lines["B"].concurrent_max, lines["B"].starts_left) == (1, None, None)
    assert (lines["idle"].in_flight, lines["idle"].starts_left) == (0, 1)
    assert next(iter(lines)) == "A"


@pytest.mark.parametrize(
    "numbers",
    [{}, {"rate_max": 1}, {"rate_seconds": 1}, {"concurrent_max": 0}, {"concurrent_max": 10**6}, {"rate_max": 0}],
)
def test_a_limit_without_sense_is_refused(numbers: dict[str, int]) -> None:
    """Goal: a slip of the pen stops nobody's work. Method: none, half a rate, zero, too many."""
    with pytest.raises(ValueError, match=r"limit|rate|concurrent"):
        partial(Limit, **numbers)()
