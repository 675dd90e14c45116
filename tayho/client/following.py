"""Following one intent to its end: by events, and by asking where events fail."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import anyio
from structlog import get_logger

from tayho.client.answers import progress_from
from tayho.client.errors import EngineUnavailable
from tayho.client.exchange import Event, Exchange, Unanswered
from tayho.client.retrying import Pauses
from tayho.client.types import IntentProgress

log = get_logger("tayho.client")

# The engine, or what stands before it, has no such stream: asking again would not make one.
_NO_STREAM = frozenset({404, 405, 406, 501})


class Follower:
    """What has been heard of one intent so far."""

    def __init__(
        self,
        exchange: Exchange,
        path: str,
        status: Callable[[], Awaitable[IntentProgress]],
        on_change: Callable[[IntentProgress], None] | None,
    ) -> None:
        self._exchange = exchange
        self._path = path
        self._status = status
        self._on_change = on_change
        self._last_event_id: str | None = None
        self._pauses = Pauses()
        self._has_stream = True
        self.last: IntentProgress | None = None

    async def follow(self) -> IntentProgress:
        """The final progress. Without an end, for ever: the caller bounds it. Raises EngineRefused, AnswerMalformed."""
        while True:
            asked_for = await self._listen() if self._has_stream else None
            # A stream that ended says nothing of the intent's end: the status does.
            if self.last is None or not self.last.is_final:
                await self._ask()
            if self.last is not None and self.last.is_final:
                return self.last
            await anyio.sleep(self._pauses.take(asked_for))

    async def _listen(self) -> int | None:
        """Hear events until the final one or the stream's end; the seconds that the engine wants to be left alone."""
        try:
            refused = await self._exchange.listen(f"{self._path}/events", self._last_event_id, self._hear)
        except Unanswered as error:
            log.debug("events_broke_off", path=self._path, reason=str(error))
            return None
        if refused is None:
            return None
        self._has_stream = refused.status not in _NO_STREAM
        return refused.retry_after

    async def _ask(self) -> None:
        try:
            self._note(await self._status())
        except EngineUnavailable as error:
            log.debug("status_unavailable", path=self._path, reason=error.reason)

    def _hear(self, event: Event) -> bool:
        """Whether it was the last event that matters."""
        self._last_event_id = event.id or self._last_event_id
        self._pauses.reset()
        progress = progress_from(event.data)
        self._note(progress)
        return progress.is_final

    def _note(self, progress: IntentProgress) -> None:
        if progress == self.last:
            return
        self.last = progress
        if self._on_change is not None:
            self._on_change(progress)
