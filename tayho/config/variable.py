"""What one environment variable is: its kind, its meaning, and when it must be set."""

from __future__ import annotations

from enum import Enum
from typing import Generic, TypeVar

from attrs import frozen

from tayho.config.kinds import Kind

T = TypeVar("T")


class Need(Enum):
    """When a variable must be set; the value says so in the README."""

    OUTSIDE_LOCAL_MODE = "required outside local mode"
    SIGNING = "required for a role that signs"
    RELAYER = "required for the role relayer"
    ENGINE = "required for the role engine"


@frozen(eq=False)
class Variable(Generic[T]):
    """One environment variable. Where `need` does not ask for it, `default` holds, as text; None leaves it unset."""

    name: str
    kind: Kind[T]
    meaning: str
    default: str | None = None
    need: Need | None = None
    # What happens without it, for a person to read, where `default` does not tell.
    unset: str = ""
    # Its text carries a secret: it is never shown, and may stand in a file named by NAME_FILE.
    is_masked: bool = False

    @property
    def file_name(self) -> str:
        """The variable that names a file with this one's text."""
        return f"{self.name}_FILE"
