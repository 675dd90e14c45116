"""Changes of intents for all who wait for them: one look a period for the whole process, whoever watches what."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import TypeAlias
from uuid import UUID

import structlog
import trio

from nursery.periodic import every
from storage.errors import StorageError
from tayho.api.engine import codes
from tayho.api.engine.refusals import RequestRefused
from tayho.intents.types import IntentStatus

log = structlog.get_logger("tayho.engine")

Look: TypeAlias = Callable[[Sequence[UUID]], Awaitable[Mapping[UUID, IntentStatus]]]

LOOK_SECONDS = 0.25
# Intents in one statement.
LOOKED_AT_MAX = 1_000


class Watcher:
    """One who waits for the changes of one intent. Only the newest status counts: what came between is passed by."""

    def __init__(self, job_id: UUID) -> None:
        self.job_id = job_id
        self._newest: IntentStatus | None = None
        self._changed = trio.Event()

    def see(self, status: IntentStatus) -> None:
        if self._newest is None or status.changed_at != self._newest.changed_at:
            self._newest = status
            self._changed.set()

    async def next(self) -> IntentStatus:
        """The newest status, once it is another than the last one returned. For one waiter only."""
        await self._changed.wait()
        self._changed = trio.Event()
        assert self._newest is not None  # noqa: S101 - set before the event
        return self._newest


class Watchers:
    """All who wait. `run` looks for them while there are any."""

    def __init__(self, look: Look, *, watchers_max: int, of_one_client_max: int) -> None:
        self._look = look
        self._watchers_max = watchers_max
        self._of_one_client_max = of_one_client_max
        self._watching: set[Watcher] = set()
        self._clients: Counter[str] = Counter()

    @property
    def number(self) -> int:
        return len(self._watching)

    @contextmanager
    def watch(self, job_id: UUID, client: str) -> Generator[Watcher]:
        """A place among those who wait, given back with the block. Raises RequestRefused."""
        if len(self._watching) >= self._watchers_max or self._clients[client] >= self._of_one_client_max:
            raise RequestRefused(codes.MANY_STREAMS, "Ask for the status instead, or for events later.")
        watcher = Watcher(job_id)
        self._watching.add(watcher)
        self._clients[client] += 1
        try:
            yield watcher
        finally:
            self._watching.discard(watcher)
            self._clients[client] -= 1
            # Else the table would grow by every client that ever watched.
            self._clients += Counter()

    async def run(self) -> None:
        """Look, until cancelled. While PostgreSQL is away nobody hears of a change, and all do afterwards."""
        await every(
            LOOK_SECONDS,
            self._look_once,
            transient=(StorageError,),
            on_error=lambda error, failures: log.info("look_failed", error=str(error), failures=failures),
        )

    async def _look_once(self) -> None:
        wanted = sorted({watcher.job_id for watcher in self._watching})
        for page in _pages(wanted):
            found = await self._look(page)
            for watcher in tuple(self._watching):
                if watcher.job_id in found:
                    watcher.see(found[watcher.job_id])


def _pages(job_ids: Sequence[UUID]) -> Sequence[Sequence[UUID]]:
    return [job_ids[first : first + LOOKED_AT_MAX] for first in range(0, len(job_ids), LOOKED_AT_MAX)]
