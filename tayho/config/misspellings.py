"""Names in the environment that look like ours and are not: a default that holds unnoticed is worse than an error."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from tayho.config.variable import Variable

_EDITS_MAX = 2


def misspelt(names: Iterable[str], variables: Iterable[Variable[Any]]) -> Iterator[str]:
    """A sentence for each name within two edits of a variable that is itself not set, and for needless _FILE forms.

    Only a warning: the environment is shared with other programs, whose names may be close by chance.
    """
    present = set(names)
    known = {variable.name for variable in variables}
    with_file = {variable.file_name for variable in variables if variable.is_masked}
    missing = [
        name
        for variable in variables
        if not present & {variable.name, variable.file_name}
        for name in ((variable.name, variable.file_name) if variable.is_masked else (variable.name,))
    ]
    for name in sorted(present - known - with_file):
        if name.endswith("_FILE") and name.removesuffix("_FILE") in known:
            yield f"{name} is not read: only secrets have a _FILE form; set {name.removesuffix('_FILE')}"
            continue
        close = next((other for other in missing if within_edits(name.upper(), other, _EDITS_MAX)), None)
        if close is not None:
            yield f"{name} is not read: did you mean {close}?"


def within_edits(one: str, other: str, edits_max: int) -> bool:
    """Whether at most so many insertions, deletions and replacements of a letter lead from one to the other."""
    if abs(len(one) - len(other)) > edits_max:
        return False
    row = list(range(len(other) + 1))
    for at, letter in enumerate(one, start=1):
        previous, row = row, [at]
        for column, counterpart in enumerate(other, start=1):
            row.append(min(previous[column] + 1, row[-1] + 1, previous[column - 1] + (letter != counterpart)))
        if min(row) > edits_max:
            return False
    return row[-1] <= edits_max
