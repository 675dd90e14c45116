"""What was read, by variable, each with the type of its variable."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar, cast

from tayho.config.variable import Variable

if TYPE_CHECKING:
    from tayho.custody.module import JournalKeys

T = TypeVar("T")


class Values:
    """The value of every variable that could be read."""

    def __init__(self) -> None:
        self._values: dict[str, object] = {}
        # Made of two variables, and so the value of neither.
        self.journal_keys: JournalKeys | None = None

    def put(self, variable: Variable[T], value: T) -> None:
        self._values[variable.name] = value

    def find(self, variable: Variable[T]) -> T | None:
        """The value, or None where the variable is unset or was refused."""
        return cast("T | None", self._values.get(variable.name))

    def __getitem__(self, variable: Variable[T]) -> T:
        """The value of a variable that has one for sure: it has a default, or its lack was refused before."""
        return cast("T", self._values[variable.name])

    def hold_ring(self, ring: JournalKeys | None) -> None:
        """Keep the journal's keys, so that they can be wiped if the configuration is refused after all."""
        self.journal_keys = ring
