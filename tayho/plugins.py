"""The job kinds that are installed: tayho's own and a team's, through one entry-point group."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import entry_points
from typing import cast

from tayho.coordination.module import schedule_problems
from tayho.coordination.types import Declared
from tayho.kinds import Kind, OffChainKind, OnChainKind, Schedule, schedules_of
from tayho.refusals import EnvironmentRefused

GROUP = "tayho.kinds"


def load_kinds() -> list[Kind]:
    """One instance of each registered kind.

    Raises EnvironmentRefused for what is no kind, a name taken twice, a schedule that cannot run.
    """
    kinds: dict[str, Kind] = {}
    problems: list[str] = []
    for point in entry_points(group=GROUP):
        kind = cast("object", point.load()())
        if not isinstance(kind, (OnChainKind, OffChainKind)):
            problems.append(f"entry point {point.name!r} ({point.value}) is no job kind: see tayho.kinds")
        elif kind.name in kinds:
            problems.append(f"the kind {kind.name!r} is registered twice, once by {point.value}")
        elif not _are_schedules(schedules_of(kind)):
            problems.append(f"`schedules` of the kind {kind.name!r} is no list of tayho.kinds.Schedule")
        else:
            kinds[kind.name] = kind
    problems += schedule_problems(declared_by(list(kinds.values())))
    if problems:
        raise EnvironmentRefused(problems)
    return list(kinds.values())


def declared_by(kinds: Sequence[Kind]) -> list[Declared]:
    """The schedules of the kinds, each with the kind that declares it."""
    return [Declared(schedule, kind.name, kind.role) for kind in kinds for schedule in schedules_of(kind)]


def _are_schedules(found: object) -> bool:
    return isinstance(found, (list, tuple)) and all(
        isinstance(one, Schedule) for one in cast("Sequence[object]", found)
    )
