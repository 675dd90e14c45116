"""One job a slot: whoever looks, whenever, however often, and whatever dies in between (DLV-13)."""

from __future__ import annotations

import ast
import json
import time
from collections.abc import Sequence
from datetime import datetime, timedelta
from inspect import getsource
from types import ModuleType

import pytest
import trio

from nursery.drain import Drain
from storage.connection import Row
from storage.database import Connection
from storage.errors import Refused
from tayho.coordination import schedule_declarations, schedule_rules, schedules, store
from tayho.coordination.schedule_declarations import document_of, slot_text
from tayho.coordination.schedules import LOOK_SECONDS_MAX, LOOK_SECONDS_MIN, SILENT_SECONDS_MAX, Scheduler
from tayho.coordination.types import Declared, Enqueued, NewJob
from tayho.kernel.schedule import CatchUp, Schedule
from tests.coordination.conftest import CHAIN_ID, ENVIRONMENT, ROLE, Plane
from tests.waiting import until

MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)


def declared(seconds: int = 60, catch_up: CatchUp = "all", name: str = "beat", **request: object) -> Declared:
    schedule = Schedule(name=name, every_seconds=seconds, catch_up=catch_up, request=request, priority=7)  # pyright: ignore[reportArgumentType]
    return Declared(schedule, "kind", ROLE)


def replica(plane: Plane, *those: Declared) -> Scheduler:
    return Scheduler(plane.database, CHAIN_ID, ENVIRONMENT, those, plane.coordination.wake_publishers)


async def now_of(plane: Plane) -> datetime:
    async with plane.database.connection() as connection:
        return await connection.fetchval("SELECT clock_timestamp()")


async def declared_ago(plane: Plane, one: Declared, ago: timedelta, silent: timedelta = timedelta()) -> datetime:
    """A schedule that was declared a while ago, and that nobody has looked at since; the time it stands at."""
    since = await now_of(plane) - ago
    async with plane.database.connection() as connection:
        await connection.execute(
            "INSERT INTO coordination.schedules"
            " (chain_id, environment, name, declaration, decided_until, confirmed_at, first_seen_at)"
            " VALUES ($1, $2, $3, $4::text::jsonb, $5, clock_timestamp() - $6::interval, $5)",
            CHAIN_ID,
            ENVIRONMENT,
            one.schedule.name,
            json.dumps(document_of(one)),
            since,
            silent,
        )
    return since


async def started_before(plane: Plane, one: Declared) -> Scheduler:
    """A replica that has had its say, and whose row is gone: what is declared next came after it."""
    scheduler = replica(plane, one)
    await scheduler.tick()
    async with plane.database.connection() as connection:
        await connection.execute("DELETE FROM coordination.schedules")
    return scheduler


async def slots_of(plane: Plane, name: str = "beat") -> list[str]:
    """The slots that have a job, oldest first."""
    prefix = f"schedule/{name}/"
    keys = [line.idempotency_key for line in await plane.coordination.list_recent(lines_max=10_000)]
    return sorted(key.removeprefix(prefix) for key in keys if key.startswith(prefix))


async def row_of(plane: Plane, name: str = "beat") -> Row:
    async with plane.database.connection() as connection:
        row = await connection.fetchrow("SELECT * FROM coordination.schedules WHERE name = $1", name)
    assert row is not None
    return row


def multiples(seconds: int, after: datetime, last: datetime) -> list[str]:
    return [slot_text(slot) for slot in schedule_rules.slots_between(declared(seconds).schedule, after, last)]


async def test_replicas_that_look_at_once_make_one_job_a_slot(plane: Plane) -> None:
    """Goal: no slot twice and none lost, whoever races. Method: two replicas look at the same moment, fifty times and
    then on, over half a minute that had passed and over seconds that pass meanwhile; a third, fresh one joins each
    round. Every second since the declaration has one job."""
    one = declared(1)
    since = await declared_ago(plane, one, timedelta(seconds=30))
    first, second = replica(plane, one), replica(plane, one)
    rounds = 0
    before = await now_of(plane)
    while rounds < 50 or (await row_of(plane))["decided_until"] < before + timedelta(seconds=2):
        rounds += 1
        async with trio.open_nursery() as looks:
            for scheduler in (first, second, replica(plane, one)):
                looks.start_soon(scheduler.tick)
    fired = await slots_of(plane)
    row = await row_of(plane)
    assert row["last_slot_at"] == row["decided_until"]
    assert fired == multiples(1, since, row["decided_until"])
    assert len(await plane.coordination.list_recent(lines_max=10_000)) == len(fired)


async def test_fifty_schedules_raced_for_by_three_replicas_each_fire_once(plane: Plane) -> None:
    """Goal: the same under many rows. Method: each schedule was declared an hour ago and fires its newest slot; all
    three replicas find all of them due."""
    many = [declared(300, "latest", f"beat-{number}") for number in range(50)]
    for one in many:
        await declared_ago(plane, one, HOUR)
    async with trio.open_nursery() as looks:
        for _ in range(3):
            looks.start_soon(replica(plane, *many).tick)
    fired = {one.schedule.name: await slots_of(plane, one.schedule.name) for one in many}
    assert {len(slots) for slots in fired.values()} == {1}


async def test_a_new_schedule_fires_nothing_of_the_time_before_it(plane: Plane) -> None:
    """Goal: a first start floods nobody. Method: a schedule with a slot each hour since 1970 is declared and looked at;
    it stands at the database's present."""
    before = await now_of(plane)
    await replica(plane, declared(3_600)).tick()
    row = await row_of(plane)
    assert before <= row["decided_until"] <= await now_of(plane)
    assert row["last_slot_at"] is None
    assert await slots_of(plane) == multiples(3_600, before, await now_of(plane))


@pytest.mark.parametrize("catch_up", ["latest", "all", "none"])
async def test_after_a_restart_missed_slots_follow_the_rule(plane: Plane, catch_up: CatchUp) -> None:
    """Goal: schedules survive restarts. Method: a schedule of five minutes that was last looked at half an hour ago; a
    fresh process declares the same and looks, then another does: it finds nothing left."""
    one = declared(300, catch_up)
    since = await declared_ago(plane, one, timedelta(minutes=32))
    await replica(plane, one).tick()
    missed = multiples(300, since, (await row_of(plane))["decided_until"])
    is_on_time = await now_of(plane) - (await row_of(plane))["decided_until"] < MINUTE
    expected = {"latest": missed[-1:], "all": missed, "none": missed[-1:] if is_on_time else []}[catch_up]
    assert await slots_of(plane) == expected
    await replica(plane, one).tick()
    assert await slots_of(plane) == expected


async def test_a_job_of_a_slot_says_which(plane: Plane) -> None:
    """Goal: the handler knows its slot. Method: fire one; its request and priority are the declared ones and the
    slot."""
    one = declared(300, "latest", markets=["a", "b"])
    await declared_ago(plane, one, HOUR)
    await replica(plane, one).tick()
    (line,) = await plane.coordination.list_recent()
    record = await plane.coordination.inspect(line.job_id)
    assert record is not None
    (slot,) = await slots_of(plane)
    assert record.request == {"markets": ["a", "b"], "slot_at": slot}
    assert (record.kind, record.role, record.priority) == ("kind", ROLE, 7)
    assert (await row_of(plane))["last_slot_at"] == datetime.fromisoformat(slot)


async def test_a_changed_declaration_begins_from_now_on(plane: Plane) -> None:
    """Goal: an old slot is not fired anew under a new rule. Method: half an hour of slots was never fired when a
    process declares another request; none of them fires, and the row says the new thing."""
    await declared_ago(plane, declared(300, market="old"), timedelta(minutes=32))
    changed = declared(300, market="new")
    before = await now_of(plane)
    await replica(plane, changed).tick()
    row = await row_of(plane)
    assert row["declaration"] == document_of(changed)
    assert row["decided_until"] >= before
    assert await slots_of(plane) == multiples(300, before, await now_of(plane))


async def test_an_older_release_leaves_a_schedule_to_the_newer_until_that_is_gone(plane: Plane) -> None:
    """Goal: two releases at once neither fight over a schedule nor stop it. Method: an old process runs, a new one
    declares a change: the old one looks and changes nothing. Then the new one falls silent: the old one takes over, and
    fires what came after the other's last word."""
    old, new = declared(1, market="old"), declared(1, market="new")
    older, newer = replica(plane, old), replica(plane, new)
    await older.tick()
    await newer.tick()
    changed = await row_of(plane)
    await older.tick()
    assert (await row_of(plane))["declaration"] == changed["declaration"] == document_of(new)
    async with plane.database.connection() as connection:
        await connection.execute(
            "UPDATE coordination.schedules SET confirmed_at = confirmed_at - $1::interval",
            timedelta(seconds=SILENT_SECONDS_MAX + 1),
        )
    await older.tick()
    row = await row_of(plane)
    assert row["declaration"] == document_of(old)
    # The other's last word is older than what it had decided: nothing that it decided is decided again.
    assert row["decided_until"] >= changed["decided_until"]


async def test_an_older_release_fires_no_slot_of_the_newer(plane: Plane) -> None:
    """Goal: a slot has the request that was declared last. Method: half an hour of a newer declaration is due; an older
    process looks, and fires none of it; the newer one then fires it all."""
    new = declared(300, market="new")
    older = await started_before(plane, declared(300, market="old"))
    since = await declared_ago(plane, new, timedelta(minutes=32))
    await older.tick()
    assert await slots_of(plane) == []
    assert (await row_of(plane))["decided_until"] == since
    await replica(plane, new).tick()
    assert await slots_of(plane) == multiples(300, since, await now_of(plane))


async def test_what_fell_due_while_nobody_spoke_is_fired_by_who_takes_over(plane: Plane) -> None:
    """Goal: the end of another release loses no slot. Method: its row stands at an hour ago, its last word is two
    minutes and a half old; who takes over fires the minutes since that word, and none before it."""
    survivor = await started_before(plane, declared(market="left"))
    await declared_ago(plane, declared(market="gone"), HOUR, silent=timedelta(seconds=150))
    word = (await row_of(plane))["confirmed_at"]
    await survivor.tick()
    assert await slots_of(plane) == multiples(60, word, await now_of(plane))


async def test_a_death_between_the_two_writes_leaves_neither(plane: Plane, monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: the jobs and the place of the schedule move together. Method: the third enqueue of five raises; nothing is
    recorded, and the next look fires all five."""
    one = declared(300)
    since = await declared_ago(plane, one, timedelta(minutes=26))
    asked = 0

    class Died(Exception):
        pass

    async def dies_at_the_third(tx: Connection, chain: int, environment: str, jobs: Sequence[NewJob]) -> list[Enqueued]:
        nonlocal asked
        asked += 1
        if asked == 3:
            raise Died
        return await plane.coordination.enqueue_many(jobs, tx=tx)

    with monkeypatch.context() as patched:
        patched.setattr(schedules, "enqueue_in", dies_at_the_third)
        with pytest.raises(Died):
            await replica(plane, one).tick()
    assert await slots_of(plane) == []
    assert (await row_of(plane))["decided_until"] == since
    await replica(plane, one).tick()
    assert await slots_of(plane) == multiples(300, since, await now_of(plane))


async def test_a_replica_with_a_stale_reading_changes_nothing(plane: Plane, monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: who read, slept for long and comes back does no harm. Method: a replica reads a daily schedule right after
    its slot, in time to fire it; another finds the same slot late and skips it for good; the first goes on from what it
    read."""
    one = declared(86_400, "none")
    await declared_ago(plane, one, timedelta(days=2))
    documents = [json.dumps(document_of(one))]
    async with plane.database.connection() as connection:
        (read,) = await store.OUR_SCHEDULES(connection, CHAIN_ID, ENVIRONMENT, ["beat"], documents)
    await replica(plane, one).tick()
    decided = (await row_of(plane))["decided_until"]
    stale = {**dict(read), "now": decided + timedelta(seconds=1)}

    async def as_it_was(*_: object) -> list[dict[str, object]]:
        return [stale]

    monkeypatch.setattr(store, "OUR_SCHEDULES", as_it_was)
    fired = await slots_of(plane)
    await replica(plane, one).tick()
    assert await slots_of(plane) == fired
    assert (await row_of(plane))["decided_until"] == decided


async def test_a_slot_whose_key_is_taken_does_not_wedge_the_schedule(plane: Plane) -> None:
    """Goal: one odd job stops nothing. Method: another request stands under the newest slot's key; the look fires the
    others, advances, and the next look finds nothing to do."""
    one = declared(300)
    since = await declared_ago(plane, one, timedelta(minutes=26))
    slots = multiples(300, since, await now_of(plane))
    taken = await plane.enqueue(f"schedule/beat/{slots[2]}", other="request")
    await replica(plane, one).tick()
    assert await slots_of(plane) == slots
    record = await plane.coordination.inspect(taken)
    assert record is not None
    assert record.request == {"other": "request"}
    assert slot_text((await row_of(plane))["decided_until"]) == slots[-1]


async def test_what_postgresql_refuses_of_one_schedule_stops_no_other(plane: Plane) -> None:
    """Goal: neighbours go on. Method: the first of two schedules makes jobs that the table refuses."""
    bad = Declared(Schedule(name="a-bad", every_seconds=300), "kind", ROLE)
    good = declared(300, "latest", "b-good")
    for one in (bad, good):
        await declared_ago(plane, one, HOUR)
    async with plane.database.connection() as connection:
        await connection.execute(
            "ALTER TABLE coordination.jobs ADD CHECK (idempotency_key NOT LIKE 'schedule/a-bad/%')"
        )
    await replica(plane, bad, good).tick()
    assert await slots_of(plane, "a-bad") == []
    assert len(await slots_of(plane, "b-good")) == 1


async def test_a_decided_slot_is_never_undecided(plane: Plane) -> None:
    """Goal: the database itself holds the order. Method: move either mark back, or away, by hand."""
    one = declared(300, "latest")
    await declared_ago(plane, one, HOUR)
    await replica(plane, one).tick()
    for change in (
        "decided_until = decided_until - interval '1 second', last_slot_at = last_slot_at - interval '1 second'",
        "last_slot_at = last_slot_at - interval '1 second'",
        "last_slot_at = NULL",
        "last_slot_at = decided_until + interval '1 second'",
        "name = 'other'",
    ):
        with pytest.raises(Refused):
            async with plane.database.connection() as connection:
                await connection.execute(f"UPDATE coordination.schedules SET {change}")


async def test_a_workers_wrong_clock_changes_nothing(plane: Plane, monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: what is due is PostgreSQL's time alone. Method: this process's clock is an hour ahead; the slots are those
    of the database's."""
    one = declared(60)
    since = await declared_ago(plane, one, timedelta(minutes=5))
    ahead = time.time_ns() + 3_600 * 10**9
    monkeypatch.setattr(time, "time_ns", lambda: ahead)
    monkeypatch.setattr(time, "time", lambda: ahead / 10**9)
    await replica(plane, one).tick()
    assert await slots_of(plane) == multiples(60, since, await now_of(plane))


@pytest.mark.parametrize("module", [schedules, schedule_rules, schedule_declarations])
def test_no_clock_of_this_machine_is_read(module: ModuleType) -> None:
    """Goal: the same by construction. Method: no function that tells a time is called in the three files."""
    calls = [node.func for node in ast.walk(ast.parse(getsource(module))) if isinstance(node, ast.Call)]
    named = {func.attr for func in calls if isinstance(func, ast.Attribute)}
    assert not named & {"now", "utcnow", "today", "time", "time_ns", "monotonic", "current_time"}


async def test_the_next_look_is_at_the_next_slot_or_soon(plane: Plane) -> None:
    """Goal: on time, and idle otherwise. Method: the answers of looks at a schedule of a year, one of two seconds, and
    none."""
    assert await replica(plane, declared(366 * 86_400, name="rare")).tick() == LOOK_SECONDS_MAX
    assert LOOK_SECONDS_MIN <= await replica(plane, declared(2, name="often")).tick() <= 2


async def test_the_loop_fires_as_time_passes_and_ends_with_the_drain(plane: Plane) -> None:
    """Goal: the task as the daemon runs it. Method: a slot each second; wait for three of them; drain."""
    drain = Drain(seconds=5)

    async def three_fired() -> bool:
        return len(await slots_of(plane)) >= 3

    with trio.fail_after(15):
        async with trio.open_nursery() as tasks:
            tasks.start_soon(plane.coordination.schedule, [declared(1), declared(366 * 86_400, name="rare")], drain)
            await until(three_fired, seconds=10, what="three slots to fire")
            drain.request("enough")
    fired = await slots_of(plane)
    row = await row_of(plane)
    assert fired == multiples(1, datetime.fromisoformat(fired[0]) - timedelta(seconds=1), row["last_slot_at"])


async def test_the_list_tells_last_and_next_slot(plane: Plane) -> None:
    """Goal: a person sees what will fire. Method: one schedule fired, one that another release declared in words of its
    own."""
    one = declared(300, "latest")
    await declared_ago(plane, one, HOUR)
    await replica(plane, one).tick()
    async with plane.database.connection() as connection:
        await connection.execute(
            "INSERT INTO coordination.schedules (chain_id, environment, name, declaration, decided_until)"
            " VALUES ($1, $2, 'odd', '{\"every_moon\": 1}', clock_timestamp())",
            CHAIN_ID,
            ENVIRONMENT,
        )
    beat, odd = await plane.coordination.list_schedules()
    now = await now_of(plane)
    assert (beat.name, beat.declaration, odd.next_slot_at) == ("beat", document_of(one), None)
    assert beat.last_slot_at is not None
    assert beat.next_slot_at is not None
    assert beat.last_slot_at <= now < beat.next_slot_at <= now + timedelta(seconds=300)
