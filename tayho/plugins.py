"""The job kinds that are installed: tayho's own and a team's, through one entry-point group."""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import cast

from tayho.kinds import Kind, OffChainKind, OnChainKind
from tayho.refusals import EnvironmentRefused

GROUP = "tayho.kinds"


def load_kinds() -> list[Kind]:
    """One instance of each registered kind. Raises EnvironmentRefused for what is no kind, or a name taken twice."""
    kinds: dict[str, Kind] = {}
    problems: list[str] = []
    for point in entry_points(group=GROUP):
        kind = cast("object", point.load()())
        if not isinstance(kind, (OnChainKind, OffChainKind)):
            problems.append(f"entry point {point.name!r} ({point.value}) is no job kind: see tayho.kinds")
        elif kind.name in kinds:
            problems.append(f"the kind {kind.name!r} is registered twice, once by {point.value}")
        else:
            kinds[kind.name] = kind
    if problems:
        raise EnvironmentRefused(problems)
    return list(kinds.values())
