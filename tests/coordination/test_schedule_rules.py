"""Which instants a schedule fires at: intervals, cron, and the two days a year on which a day has no 24 hours."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from attrs import frozen
from hypothesis import example, given
from hypothesis import strategies as st

from tayho.coordination import schedule_rules
from tayho.coordination.schedule_rules import CAUGHT_UP_MAX, ON_TIME, due_slots, next_slot, slots_between
from tayho.kernel.schedule import CatchUp, Schedule

BERLIN, NEW_YORK, LORD_HOWE = "Europe/Berlin", "America/New_York", "Australia/Lord_Howe"
# Beside the three: changes at midnight, a change of two hours, quarter hours, and none at all.
ZONES = [BERLIN, NEW_YORK, LORD_HOWE, "Africa/Cairo", "America/Havana", "Antarctica/Troll", "Pacific/Chatham", "UTC"]
MINUTE = timedelta(minutes=1)
NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def every(seconds: int, catch_up: CatchUp = "latest") -> Schedule:
    return Schedule(name="tick", every_seconds=seconds, catch_up=catch_up)


def cron(expression: str, zone: str = "UTC", catch_up: CatchUp = "latest") -> Schedule:
    return Schedule(name="tick", cron=expression, time_zone=zone, catch_up=catch_up)


@pytest.mark.parametrize(
    ("zone", "expression", "day", "fires"),
    [
        # Spring: 02:00 becomes 03:00 at 01:00 UTC. What names an hour of the gap fires at its end, once.
        (BERLIN, "30 2 * * *", "2026-03-29", ["01:00"]),
        (BERLIN, "*/20 2 * * *", "2026-03-29", ["01:00"]),
        (BERLIN, "0 2,3 * * *", "2026-03-29", ["01:00"]),
        (BERLIN, "30 1,2,3 * * *", "2026-03-29", ["00:30", "01:00", "01:30", "23:30"]),
        (BERLIN, "0 */2 * * *", "2026-03-29", ["01:00", *(f"{hour:02}:00" for hour in range(2, 23, 2))]),
        # What runs every hour goes by the time that passed.
        (BERLIN, "15 * * * *", "2026-03-29", [f"{hour:02}:15" for hour in range(24)]),
        # Autumn: 03:00 becomes 02:00 at 01:00 UTC. A named hour fires in its first copy alone.
        (BERLIN, "30 2 * * *", "2026-10-25", ["00:30"]),
        (BERLIN, "*/20 2 * * *", "2026-10-25", ["00:00", "00:20", "00:40"]),
        (BERLIN, "0 2,3 * * *", "2026-10-25", ["00:00", "02:00"]),
        (BERLIN, "30 * * * *", "2026-10-25", [f"{hour:02}:30" for hour in range(24)]),
        # New York: 02:00 becomes 03:00 at 07:00 UTC; 02:00 becomes 01:00 at 06:00 UTC.
        (NEW_YORK, "30 2 * * *", "2026-03-08", ["07:00"]),
        (NEW_YORK, "0 9 * * MON-FRI", "2026-03-09", ["13:00"]),
        (NEW_YORK, "30 1 * * *", "2026-11-01", ["05:30"]),
        (NEW_YORK, "*/15 1 * * *", "2026-11-01", ["05:00", "05:15", "05:30", "05:45"]),
        (NEW_YORK, "0 * * * *", "2026-11-01", [f"{hour:02}:00" for hour in range(24)]),
        # Lord Howe moves by half an hour: 02:00 becomes 02:30 at 15:30 UTC; 02:00 becomes 01:30 at 15:00 UTC.
        (LORD_HOWE, "15 2 * * *", "2026-10-03", ["15:30"]),
        (LORD_HOWE, "30 2 * * *", "2026-10-03", ["15:30"]),
        (LORD_HOWE, "0,10,20 5 * * *", "2026-10-03", ["18:00", "18:10", "18:20"]),
        (LORD_HOWE, "45 1 * * *", "2026-04-04", ["14:45"]),
        (LORD_HOWE, "*/10 5 * * *", "2026-04-04", ["18:30", "18:40", "18:50", "19:00", "19:10", "19:20"]),
        (LORD_HOWE, "45 1-23 * * *", "2026-04-04", ["00:45", *[f"{h:02}:45" for h in range(1, 13)], "14:45"]
            + [f"{h:02}:15" for h in range(16, 24)]),
    ],
)  # fmt: skip
def test_a_local_time_fires_once_on_the_days_of_the_change(
    zone: str, expression: str, day: str, fires: list[str]
) -> None:
    """Goal: no slot is lost in spring and none doubled in autumn. Method: the slots of the UTC day around each change,
    written out by hand."""
    start = at(day)
    found = slots_between(cron(expression, zone), start - timedelta(seconds=1), start + timedelta(hours=24) - MINUTE)
    assert [f"{slot:%H:%M}" for slot in found] == fires


def test_intervals_are_aligned_to_the_epoch() -> None:
    """Goal: replicas agree without a word. Method: slots from two starting points are multiples of the period."""
    early = list(slots_between(every(7), NOON, NOON + timedelta(minutes=1)))
    late = list(slots_between(every(7), NOON + timedelta(seconds=20, microseconds=5), NOON + timedelta(minutes=1)))
    assert all(int(slot.timestamp()) % 7 == 0 for slot in early)
    assert late == early[-len(late) :]
    assert next_slot(every(7), early[0]) == early[1]


@frozen
class Fields:
    """A cron expression, and the minutes and hours that it names."""

    minutes: frozenset[int]
    hours: frozenset[int]

    @property
    def text(self) -> str:
        hours = "*" if len(self.hours) == 24 else ",".join(map(str, sorted(self.hours)))
        return f"{','.join(map(str, sorted(self.minutes)))} {hours} * * *"


_FIELDS = st.builds(
    Fields,
    st.frozensets(st.integers(0, 59), min_size=1, max_size=5),
    st.frozensets(st.integers(0, 23), min_size=1, max_size=4) | st.just(frozenset(range(24))),
)


def changes(zone: str) -> list[datetime]:
    """The days of a year on which the zone's offset changes, and an ordinary one."""
    days = [at("2026-01-01") + timedelta(days=number) for number in range(365)]
    offsets = [day.astimezone(ZoneInfo(zone)).utcoffset() for day in days]
    return [days[1], *(day for day, (now, then) in zip(days, pairwise(offsets), strict=False) if now != then)]


_WINDOWS = st.sampled_from([(zone, day) for zone in ZONES for day in changes(zone)])
_OFFSETS = st.integers(-6 * 3_600, 40 * 3_600)


@given(_WINDOWS, _FIELDS, st.lists(_OFFSETS, min_size=2, max_size=5))
@example((LORD_HOWE, at("2026-04-04")), Fields(frozenset({0, 10, 20}), frozenset({5})), [-7_200, 7_200, 86_400])
# A cut in the first copy of a doubled hour: what the wall has shown already comes again.
@example((BERLIN, at("2026-10-25")), Fields(frozenset({10}), frozenset(range(24))), [-7_200, 2_700, 86_400])
def test_windows_that_meet_share_no_slot_and_lose_none(
    window: tuple[str, datetime], fields: Fields, offsets: list[int]
) -> None:
    """Goal: it does not matter when, or how often, anybody looks. Method: any window around any change is cut anywhere;
    the slots of the parts are those of the whole, strictly increasing, and inside their parts."""
    zone, day = window
    schedule = cron(fields.text, zone)
    cuts = [day + timedelta(seconds=offset) for offset in sorted(offsets)]
    whole = list(slots_between(schedule, cuts[0], cuts[-1]))
    parts = [list(slots_between(schedule, *ends)) for ends in pairwise(cuts)]
    assert [slot for part in parts for slot in part] == whole
    assert all(earlier < later for earlier, later in pairwise(whole))
    assert all(cuts[0] < slot <= cuts[-1] for slot in whole)


@given(_WINDOWS, _FIELDS)
def test_slots_are_what_a_clock_on_the_wall_would_show(window: tuple[str, datetime], fields: Fields) -> None:
    """Goal: the rule is the stated one in any zone. Method: a second way to the same slots, which looks at a wall clock
    minute by minute."""
    zone, day = window
    after, until = day - timedelta(hours=6), day + timedelta(hours=40)
    assert list(slots_between(cron(fields.text, zone), after, until)) == sorted(
        _by_the_wall(fields, zone, after, until)
    )


def _by_the_wall(fields: Fields, zone: str, after: datetime, until: datetime) -> set[datetime]:
    tz = ZoneInfo(zone)
    minutes = int((until - after) / MINUTE) + 2 * 1_440
    shown = [
        (instant, instant.astimezone(tz).replace(tzinfo=None, fold=0))
        for instant in (after - timedelta(days=1) + number * MINUTE for number in range(minutes))
    ]
    if len(fields.hours) == 24:
        fired = {instant for instant, wall in shown if wall.minute in fields.minutes}
    else:
        fired = set(_first_at_or_past(fields, shown))
    return {instant for instant in fired if after < instant <= until}


def _first_at_or_past(fields: Fields, shown: list[tuple[datetime, datetime]]) -> Iterator[datetime]:
    """The instant at which the wall first shows each named time, or a later one where it leaves that out."""
    furthest = shown[0][1]
    for instant, wall in shown[1:]:
        while furthest < wall:
            furthest += MINUTE
            if furthest.minute in fields.minutes and furthest.hour in fields.hours:
                yield instant


def test_latest_fires_the_newest_of_what_was_missed() -> None:
    """Goal: the default. Method: five slots at once; then one; then none."""
    start = at("2026-06-01T12:00:00")
    due = due_slots(every(60), start, start + timedelta(seconds=301))
    assert due is not None
    assert (due.fire, due.decided_until) == ((start + 5 * MINUTE,), start + 5 * MINUTE)
    assert due.skipped == (start + MINUTE, start + 4 * MINUTE)
    one = due_slots(every(60), start, start + MINUTE)
    assert one is not None
    assert (one.fire, one.skipped) == ((start + MINUTE,), None)
    assert due_slots(every(60), start, start + timedelta(seconds=59)) is None


def test_all_fires_the_newest_hundred_oldest_first_and_tells_the_rest() -> None:
    """Goal: catching up is bounded. Method: a night of minutes; exactly a hundred of them; one more."""
    start = at("2026-06-01T00:00:00")
    for missed in (CAUGHT_UP_MAX, CAUGHT_UP_MAX + 1, 720):
        due = due_slots(cron("* * * * *", catch_up="all"), start, start + missed * MINUTE)
        assert due is not None
        kept = min(missed, CAUGHT_UP_MAX)
        assert due.fire == tuple(start + number * MINUTE for number in range(missed - kept + 1, missed + 1))
        left_out = None if missed == kept else (start + MINUTE, start + (missed - kept) * MINUTE)
        assert due.skipped == left_out


def test_none_fires_only_what_is_on_time() -> None:
    """Goal: no late work. Method: the newest slot just on time, and just not."""
    slot = at("2026-06-01T12:00:00")
    schedule = cron("0 * * * *", catch_up="none")
    on_time = due_slots(schedule, slot - timedelta(hours=3), slot + ON_TIME)
    assert on_time is not None
    assert (on_time.fire, on_time.skipped) == ((slot,), (slot - timedelta(hours=2), slot - timedelta(hours=1)))
    late = due_slots(schedule, slot - timedelta(hours=1), slot + ON_TIME + timedelta(seconds=1))
    assert late is not None
    assert (late.fire, late.skipped, late.decided_until) == ((), (slot, slot), slot)


@pytest.mark.parametrize("schedule", [every(1, "all"), cron("* * * * *", BERLIN, "all"), cron("0 0 29 2 *", BERLIN)])
def test_twenty_years_of_absence_are_not_counted_through(schedule: Schedule, monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: a long absence does not stop the process while it counts. Method: count the slots that are walked through
    to find the newest: a few thousand, not the half thousand million that a second's schedule had."""
    walked = 0

    def counted(one: Schedule, after: datetime, until: datetime) -> Iterator[datetime]:
        nonlocal walked
        for slot in slots_between(one, after, until):
            walked += 1
            assert walked < 5_000
            yield slot

    monkeypatch.setattr(schedule_rules, "slots_between", counted)
    due = due_slots(schedule, NOON - timedelta(days=20 * 365), NOON)
    assert due is not None
    assert len(due.fire) in (1, CAUGHT_UP_MAX)
    assert due.skipped is not None
