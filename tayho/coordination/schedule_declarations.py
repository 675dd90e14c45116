"""A declared schedule: what may be wrong with it, the document that PostgreSQL keeps, the jobs that it makes."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import cast
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError

from tayho.coordination.types import PRIORITY_DEFAULT, PRIORITY_MAX, Declared, NewJob
from tayho.kernel import json_document
from tayho.kernel.json_document import DocumentRefused, Json
from tayho.kernel.roles import ROLES
from tayho.kernel.schedule import CatchUp, Schedule

SLOT_AT = "slot_at"
KIND_LENGTH_MAX = 128
CRON_FIELDS = 5
EVERY_SECONDS_MAX = 366 * 86_400
CATCH_UPS: tuple[CatchUp, ...] = ("latest", "all", "none")
# What a document tells of the schedule itself.
_TOLD = ("every_seconds", "cron", "time_zone", "request", "priority", "catch_up")
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,99}")
# The expression must fire within cronsim's fifty years of an ordinary day.
_ORDINARY_DAY = datetime(2024, 1, 1)  # noqa: DTZ001 - a wall-clock time; the zone is checked on its own


def problems_of(declared: Sequence[Declared]) -> list[str]:
    """Every fault of every schedule, one sentence each; none where all can run."""
    problems = [
        f"the schedule {one.schedule.name!r} of the kind {one.kind!r}: {problem}"
        for one in declared
        for problem in _problems(one)
    ]
    named = Counter(str(one.schedule.name) for one in declared)
    for name in (name for name, count in named.items() if count > 1):
        kinds = sorted({one.kind for one in declared if one.schedule.name == name})
        problems.append(f"the schedule {name!r} is declared {named[name]} times, by {', '.join(kinds)}: rename one")
    return problems


def document_of(declared: Declared) -> dict[str, Json]:
    """What PostgreSQL keeps of a declaration. Another document is another declaration."""
    schedule = declared.schedule
    if schedule.cron is None:
        rule: dict[str, Json] = {"every_seconds": schedule.every_seconds}
    else:
        rule = {"cron": schedule.cron, "time_zone": schedule.time_zone}
    return {
        "kind": declared.kind,
        "role": declared.role,
        **rule,
        "request": dict(schedule.request),
        "priority": schedule.priority,
        "catch_up": schedule.catch_up,
    }


def declared_of(name: str, document: Mapping[str, Json]) -> Declared | None:
    """The declaration that a document was made of; None where another release wrote what this one cannot read."""
    told = {key: document[key] for key in _TOLD if key in document}
    schedule = Schedule(name=name, **told)  # pyright: ignore[reportArgumentType] - `problems_of` judges what was read
    declared = Declared(schedule, str(document.get("kind")), str(document.get("role")))
    return None if problems_of([declared]) else declared


def job_of(declared: Declared, slot: datetime) -> NewJob:
    """The job of a slot. The slot is in its key, so that it is recorded once, whoever fires it (DLV-13)."""
    schedule, slot_at = declared.schedule, slot_text(slot)
    return NewJob(
        declared.kind,
        declared.role,
        f"schedule/{schedule.name}/{slot_at}",
        {**schedule.request, SLOT_AT: slot_at},
        PRIORITY_DEFAULT if schedule.priority is None else schedule.priority,
    )


def slot_text(slot: datetime) -> str:
    """A slot as its job and people see it: UTC, to the second."""
    return f"{slot.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"


def _problems(declared: Declared) -> Iterator[str]:
    schedule = declared.schedule
    if not _is_text(schedule.name) or _NAME.fullmatch(schedule.name) is None:
        yield "its name is not 1 to 100 of a-z, 0-9, dot, hyphen, underscore, a letter or digit first"
    if not 1 <= len(declared.kind) <= KIND_LENGTH_MAX:
        yield f"the name of its kind is not 1 to {KIND_LENGTH_MAX} characters"
    if declared.role not in ROLES:
        yield f"its role {declared.role!r} is none of {', '.join(ROLES)}"
    if (schedule.every_seconds is None) == (schedule.cron is None):
        yield "give either every_seconds or cron"
    elif schedule.cron is None:
        yield from _interval_problems(schedule)
    else:
        yield from _cron_problems(schedule.cron)
        yield from _zone_problems(schedule.time_zone)
    yield from _request_problems(schedule.request)
    if schedule.priority is not None and not _is_integer(schedule.priority, PRIORITY_MAX):
        yield f"priority={schedule.priority!r} is no integer from 1 to {PRIORITY_MAX}"
    if schedule.catch_up not in CATCH_UPS:
        yield f"catch_up={schedule.catch_up!r} is none of {', '.join(CATCH_UPS)}"


def _interval_problems(schedule: Schedule) -> Iterator[str]:
    if not _is_integer(schedule.every_seconds, EVERY_SECONDS_MAX):
        yield f"every_seconds={schedule.every_seconds!r} is no integer from 1 to {EVERY_SECONDS_MAX}"
    if schedule.time_zone != "UTC":
        yield "time_zone means nothing to an interval: leave it out, or give cron"


def _cron_problems(cron: object) -> Iterator[str]:
    if not isinstance(cron, str) or len(cron.split()) != CRON_FIELDS:
        yield f"cron={cron!r} is not five fields: minute, hour, day of month, month, day of week"
        return
    try:
        if next(CronSim(cron, _ORDINARY_DAY), None) is None:
            yield f"cron={cron!r} never fires"
    except (CronSimError, ValueError) as error:
        yield f"cron={cron!r}: {error}"


def _zone_problems(time_zone: object) -> Iterator[str]:
    # `localtime` is whatever the machine says, and replicas must agree.
    if not isinstance(time_zone, str) or time_zone == "localtime":
        yield f"time_zone={time_zone!r} is no IANA name, such as Europe/Berlin"
        return
    try:
        ZoneInfo(time_zone)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        yield f"time_zone={time_zone!r} is not known here: an IANA name, such as Europe/Berlin"


def _request_problems(request: object) -> Iterator[str]:
    if not isinstance(request, Mapping):
        yield f"its request is a {type(request).__name__}, not a mapping"
        return
    fields = cast("Mapping[object, object]", request)
    if SLOT_AT in fields:
        yield f"its request has {SLOT_AT!r}, which is where each job finds its slot: rename it"
    try:
        json_document.check({**fields, SLOT_AT: slot_text(datetime.max.replace(tzinfo=UTC))})
    except DocumentRefused as error:
        yield f"its request cannot be recorded: {error}"


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_integer(value: object, maximum: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= maximum
