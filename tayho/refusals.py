"""Why a process does not start: what a person must mend, in one line each."""

from __future__ import annotations

from collections.abc import Sequence


class EnvironmentRefused(Exception):
    """What the process stands on is missing, too old, or not what it was configured for. Nothing was begun."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = tuple(problems)
