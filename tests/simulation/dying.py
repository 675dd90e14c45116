"""How a replica inside the test's own loop dies at a step: where its code stands, as if the process were killed."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Protocol

from attrs import define


class Killed(BaseException):
    """The replica died here. No handler of errors may take it."""


@define
class Doom:
    """The step at which a replica dies, and how often it still passes it."""

    step: str
    passes: int


class Mortal(Protocol):
    """A replica, as the hook sees it."""

    def pass_step(self, name: str) -> None:
        """Raises Killed at the step of its doom."""
        ...


# Whose code is running, for the hook that kills at a step.
RUNNING: ContextVar[Mortal | None] = ContextVar("RUNNING", default=None)


def kill_at_step(name: str) -> None:
    """For `on_step`: whichever replica's code is running."""
    replica = RUNNING.get()
    if replica is not None:
        replica.pass_step(name)
