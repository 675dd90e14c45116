"""When a schedule fires: its slots, and which of them are due. Pure: the time comes in as an argument (DLV-13).

Reading a cron expression and walking the calendar is cronsim's work, on wall-clock times without a zone. Which instant
such a time means is decided here, because cronsim's own answer follows Debian's cron: what it gives depends on where
one starts to ask, and replicas must agree.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import takewhile
from zoneinfo import ZoneInfo

from attrs import frozen
from cronsim import CronSim

from tayho.kernel.schedule import Schedule

# What one look may fire of a schedule that catches up with all it missed.
CAUGHT_UP_MAX = 100
# A schedule that never catches up skips a slot that is later than this.
ON_TIME = timedelta(seconds=60)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SECOND = timedelta(seconds=1)
_DAY = timedelta(days=1)
_HOURS_OF_A_DAY = 24


@frozen
class Due:
    """What one look decides."""

    # Oldest first.
    fire: tuple[datetime, ...]
    # The first and the last slot that will never fire; None where none is skipped.
    skipped: tuple[datetime, datetime] | None
    decided_until: datetime


def due_slots(schedule: Schedule, decided_until: datetime, now: datetime) -> Due | None:
    """What becomes of the slots in (decided_until, now]; None where there are none.

    Of several slots found at once all but the newest were missed: a later one came before anybody looked.
    """
    fire_max = CAUGHT_UP_MAX if schedule.catch_up == "all" else 1
    found = _newest(schedule, decided_until, now, fire_max + 1)
    if not found:
        return None
    fire = found[-fire_max:]
    if schedule.catch_up == "none" and now - found[-1] > ON_TIME:
        fire = ()
    passed_over = found[: len(found) - len(fire)]
    skipped = (next(slots_between(schedule, decided_until, now)), passed_over[-1]) if passed_over else None
    return Due(fire, skipped, decided_until=found[-1])


def next_slot(schedule: Schedule, after: datetime) -> datetime | None:
    """The first slot after an instant; None where a cron expression has no more within fifty years."""
    return next(_slots_after(schedule, after), None)


def slots_between(schedule: Schedule, after: datetime, until: datetime) -> Iterator[datetime]:
    """The slots in (after, until], oldest first, in UTC. Windows that meet share no slot and lose none."""
    return takewhile(lambda slot: slot <= until, _slots_after(schedule, after))


def _newest(schedule: Schedule, after: datetime, until: datetime, count: int) -> tuple[datetime, ...]:
    """The last `count` slots in (after, until]. Looks back in growing steps: a year's absence must not cost a second
    of counting minutes, in which no other task has its turn."""
    look_back = timedelta(hours=1)
    while True:
        start = max(after, until - look_back) if look_back < until - after else after
        found = deque(slots_between(schedule, start, until), maxlen=count)
        if len(found) == count or start == after:
            return tuple(found)
        look_back *= 4


def _slots_after(schedule: Schedule, after: datetime) -> Iterator[datetime]:
    after = after.astimezone(UTC)
    if schedule.cron is not None:
        return _cron_slots(schedule.cron, ZoneInfo(schedule.time_zone), after)
    if schedule.every_seconds is None:
        raise ValueError(f"the schedule {schedule.name!r} has no rule: its declaration was not checked")
    return _multiples(timedelta(seconds=schedule.every_seconds), after)


def _multiples(period: timedelta, after: datetime) -> Iterator[datetime]:
    """Aligned to the epoch, so that replicas agree without having spoken."""
    slot = _EPOCH + ((after - _EPOCH) // period + 1) * period
    while True:
        yield slot
        slot += period


def _cron_slots(cron: str, zone: ZoneInfo, after: datetime) -> Iterator[datetime]:
    wall = after.astimezone(zone)
    # Where the clock is about to go back, times that the wall has shown already come again.
    goes_back = max((wall.utcoffset() or timedelta()) - _offset(after + _DAY, zone), timedelta())
    ticks = CronSim(cron, wall.replace(tzinfo=None) - goes_back)
    runs_every_hour = len(ticks.hours) == _HOURS_OF_A_DAY
    instants = _each_occurrence(ticks, zone) if runs_every_hour else _each_tick_once(ticks, zone)
    last = after
    for instant in instants:
        if instant > last:
            yield instant
            last = instant


def _each_tick_once(ticks: Iterable[datetime], zone: ZoneInfo) -> Iterator[datetime]:
    """For named hours the wall clock counts: the first of two occurrences, and after a gap the first valid instant."""
    for tick in ticks:
        instant = _instant(tick, zone, fold=0)
        yield instant if _wall(instant, zone) == tick else _end_of_gap(tick, zone)


def _each_occurrence(ticks: Iterable[datetime], zone: ZoneInfo) -> Iterator[datetime]:
    """For every hour the time that has passed counts: a doubled hour fires twice, one that is left out does not."""
    again: deque[datetime] = deque()
    for tick in ticks:
        first, second = _instant(tick, zone, fold=0), _instant(tick, zone, fold=1)
        while again and again[0] < first:
            yield again.popleft()
        if _wall(first, zone) == tick:
            yield first
            if second > first:
                again.append(second)
    yield from again


def _end_of_gap(tick: datetime, zone: ZoneInfo) -> datetime:
    """The instant at which the clock jumped over the tick."""
    # With the offset from before the jump the tick comes after it, with the offset from after the jump before it.
    late, early = _instant(tick, zone, fold=0), _instant(tick, zone, fold=1)
    offset = _offset(late, zone)
    while late - early > _SECOND:
        middle = early + timedelta(seconds=(late - early) // (2 * _SECOND))
        if _offset(middle, zone) == offset:
            late = middle
        else:
            early = middle
    return late


def _instant(tick: datetime, zone: ZoneInfo, *, fold: int) -> datetime:
    return tick.replace(tzinfo=zone, fold=fold).astimezone(UTC)


def _wall(instant: datetime, zone: ZoneInfo) -> datetime:
    return instant.astimezone(zone).replace(tzinfo=None, fold=0)


def _offset(instant: datetime, zone: ZoneInfo) -> timedelta:
    return instant.astimezone(zone).utcoffset() or timedelta()
