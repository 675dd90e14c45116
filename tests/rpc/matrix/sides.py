"""What a side is: something that can be set over endpoints, warmed, and asked."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from tests.rpc.front.ground import Ground
from tests.rpc.matrix.cells import Cell, Outcome

# What each side is given for one endpoint, and what it has for a whole cell.
ENDPOINT_SECONDS = 0.7
DEADLINE_SECONDS = 3.0
WARMING = 10


class Asking(Protocol):
    """One cell's question, over its endpoints."""

    async def warm(self) -> None:
        """Ask of the same kind, WARMING times, while every endpoint is honest."""
        ...

    async def ask(self) -> Outcome:
        """The outcome; never raises but for a defect of the side itself."""
        ...


class Seat(Protocol):
    """Plays one cell at a time."""

    def opened(self, cell: Cell, urls: Sequence[str], ground: Ground) -> AbstractAsyncContextManager[Asking]:
        """Set over these endpoints, in their order."""
        ...
