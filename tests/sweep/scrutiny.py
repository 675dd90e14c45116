"""What must hold while the play goes on, and when it is over. It looks from behind the scenes."""

from collections import Counter
from collections.abc import Mapping
from uuid import UUID

import trio
from attrs import define

from storage.database import Connection
from tayho.coordination.control.constants import CANCELLED
from tests.sweep.parts import CANCELLED_PARTS, REPLAYED_PARTS, TENANT, End
from tests.sweep.stage import ENVIRONMENT, SETTINGS, Plane

LOOK_SECONDS = 0.04
# A row may be due for as long as a publisher sleeps, backs off, or is away: its lease at most, and a little.
OVERDUE_SECONDS_MAX = 2.5
_EARLIER_STATES = {"failed", "returned", "lost"}
_OPEN = ("waiting", "prioritized", "delayed", "active")

# DLV-4: every non-terminal job is due in the future, published at its current generation, or held by a live attempt.
# The promise behind all three is the outbox row, which makes somebody look again: no job may be without one.
_FORGOTTEN = """
    SELECT jobs.idempotency_key, jobs.state, jobs.generation, outbox.due_at, outbox.published_at
    FROM coordination.jobs AS jobs
    LEFT JOIN coordination.outbox AS outbox USING (job_id)
    WHERE jobs.state IN ('queued', 'processing', 'retry')
        AND coalesce(outbox.due_at < clock_timestamp() - make_interval(secs => $1), true)
"""
_KEPT_IN_VAIN = """
    SELECT jobs.idempotency_key, jobs.state FROM coordination.outbox AS outbox
    JOIN coordination.jobs AS jobs USING (job_id)
    WHERE jobs.state NOT IN ('queued', 'processing', 'retry')
"""
_RUNNING_IN_VAIN = """
    SELECT jobs.idempotency_key, jobs.state, attempts.attempt_number FROM coordination.attempts AS attempts
    JOIN coordination.jobs AS jobs USING (job_id)
    WHERE attempts.state = 'running'
        AND (jobs.state <> 'processing' OR jobs.attempt_token IS DISTINCT FROM attempts.token
             OR jobs.attempt_number <> attempts.attempt_number)
"""


@define
class Watch:
    """How long the longest look took. A machine that stands still for longer than a lock lets locks run out."""

    longest_seconds: float = 0

    @property
    def stood_still(self) -> bool:
        return self.longest_seconds > SETTINGS.lock_seconds / 3


async def audit(plane: Plane, watch: Watch) -> None:
    """Look at the invariants again and again, until cancelled.

    Raises:
        AssertionError: one of them does not hold; with the rows that break it.
    """
    async with plane.database.connection() as connection:
        while True:
            began_at = trio.current_time()
            await check_promises(connection)
            await trio.sleep(LOOK_SECONDS)
            watch.longest_seconds = max(watch.longest_seconds, trio.current_time() - began_at)


async def check_promises(connection: Connection) -> None:
    """Every open job is looked after, no ended one is, and only current attempts run. Raises AssertionError."""
    for what, sql, arguments in (
        ("DLV-4: open jobs that nobody will look after", _FORGOTTEN, (OVERDUE_SECONDS_MAX,)),
        ("outbox rows of jobs that need none", _KEPT_IN_VAIN, ()),
        ("I6: running attempts that are not their job's current one", _RUNNING_IN_VAIN, ()),
    ):
        rows = await connection.fetch(sql, *arguments)
        assert not rows, f"{what}: {[dict(row) for row in rows]}"


async def is_published(plane: Plane, jobs: int) -> bool:
    """Whether all of so many jobs have a record that can be handed out, or is."""
    await trio.sleep(LOOK_SECONDS)
    counts = await plane.queue.counts()
    return sum(counts[name] for name in _OPEN) == jobs


async def is_quiet(plane: Plane) -> bool:
    """Nothing is left to do, in PostgreSQL and in Redis. Not asked at every turn: the machine is for the play."""
    await trio.sleep(LOOK_SECONDS)
    async with plane.database.connection() as connection:
        left = await connection.fetchval("SELECT count(*) FROM coordination.jobs WHERE ended_at IS NULL")
    if left:
        return False
    counts = await plane.queue.counts()
    return not any(counts[name] for name in _OPEN)


async def check_ends(plane: Plane, ends: Mapping[str, End], watch: Watch) -> None:
    """Each job ended as it must, by exactly one attempt, with a budget that its attempts account for.

    Raises:
        AssertionError: with the jobs that did not.
    """
    async with plane.database.connection() as connection:
        await check_promises(connection)
        assert await connection.fetchval("SELECT count(*) FROM coordination.outbox") == 0
        jobs = await connection.fetch(
            "SELECT *, request ->> 'part' AS part FROM coordination.jobs WHERE environment = $1", ENVIRONMENT
        )
        attempts = await connection.fetch("SELECT * FROM coordination.attempts ORDER BY job_id, attempt_number")
        await _check_deeds(connection, {job["job_id"]: job["part"] for job in jobs})
    assert len(jobs) == len(ends)
    assert {job["part"]: job["state"] for job in jobs} == {key: end.state for key, end in ends.items()}
    for job in jobs:
        name, end = job["part"], ends[job["part"]]
        own = [attempt for attempt in attempts if attempt["job_id"] == job["job_id"]]
        states = [attempt["state"] for attempt in own]
        assert [attempt["attempt_number"] for attempt in own] == list(range(1, len(own) + 1)), name
        assert job["attempt_number"] == len(own), name
        assert states[-1:] == ([] if end.last_attempt is None else [end.last_attempt]), (name, states)
        assert end.state != "dead" or (job["last_error"]["type"] == CANCELLED) == (name in CANCELLED_PARTS), name
        assert set(states[:-1]) <= _EARLIER_STATES, (name, states)
        # One connection that breaks wastes no attempt: whose work was done, or was under way, is not done again, and
        # who heard of the outage returns unspent. On a machine that stood still a lock may have run out as well.
        assert states.count("lost") == end.lost or watch.stood_still, (name, states)
        assert states.count("failed") == end.failed, (name, states)
        assert job["attempts_spent"] == len(own) - states.count("returned") - end.forgiven, (name, states)
    counts = await plane.queue.counts()
    assert counts["active"] == 0, counts


async def _check_deeds(connection: Connection, parts: Mapping[UUID, str]) -> None:
    """Whatever operators did is written down: once, however often it was asked for. Numbers may be set again.

    Raises:
        AssertionError: with what is written down.
    """
    actions = await connection.fetch("SELECT * FROM coordination.operator_actions ORDER BY action_id")
    told = Counter((action["action"], parts[job_id]) for action in actions for job_id in action["job_ids"])
    wanted = [("replay", name) for name in REPLAYED_PARTS] + [("cancel", name) for name in CANCELLED_PARTS]
    assert told == Counter(wanted), told
    about_none = [action for action in actions if not action["job_ids"]]
    counts = Counter(action["action"] for action in about_none)
    assert {*counts} == {"pause", "resume", "limit", "drain", "undrain"}, counts
    assert counts["pause"] == counts["resume"] == 1, counts
    limits = Counter(
        (action["detail"]["limit_key"], "removed" in action["detail"])
        for action in about_none
        if action["action"] == "limit"
    )
    assert {*limits} == {(TENANT, False), ("passing", False), ("passing", True)}, limits
    assert limits["passing", True] == 1, limits
