"""Why a configuration is refused."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import frozen


@frozen
class Problem:
    """One thing wrong with one variable. Neither text holds anything of a secret."""

    variable: str
    expected: str
    found: str

    def __str__(self) -> str:
        return f"{self.variable}: expected {self.expected}; found {self.found}"


class ConfigurationRefused(Exception):
    """The environment cannot be run with. Nothing was opened. `problems` holds every one found, not the first."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("the configuration is refused:\n" + "\n".join(f"  {line}" for line in self.lines()))

    def lines(self) -> list[str]:
        """One line for each problem, naming its variable first."""
        return [str(problem) for problem in self.problems]
