"""Server-sent events: each change of one intent until its end, and a sign of life in between."""

from __future__ import annotations

import json
from collections.abc import Mapping

import trio
from attrs import frozen

from nursery.drain import Drain
from nursery.groups import unwrapped
from tayho.api.engine.bodies import Receive
from tayho.api.engine.entrance import Scope, Send
from tayho.api.engine.refusals import NEVER_STORED
from tayho.api.engine.watching import Watcher
from tayho.api.engine.wire import status_document, version_of
from tayho.intents.types import IntentStatus

HEARTBEAT_SECONDS = 15.0
# Then the client asks again with Last-Event-ID: no connection is cut off for its age within a stream.
STREAM_SECONDS_MAX = 90.0
RETRY_MILLISECONDS = 1_000


@frozen
class Stream:
    """One answer of events, from the first status on that the client has not seen."""

    watcher: Watcher
    first: IntentStatus
    # What the client saw last, or "".
    seen: str
    drain: Drain
    headers: Mapping[str, str]

    async def send_all(self, _scope: Scope, receive: Receive, send: Send) -> None:
        """Send until the intent has ended, the client has left, the drain begins or it is time to ask again."""
        headers = {"Content-Type": "text/event-stream", "X-Accel-Buffering": "no", **NEVER_STORED, **self.headers}
        encoded = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
        await send({"type": "http.response.start", "status": 200, "headers": encoded})
        await _send_text(send, f"retry: {RETRY_MILLISECONDS}\n\n")
        with unwrapped(), trio.move_on_after(STREAM_SECONDS_MAX):
            async with trio.open_nursery() as tasks:
                tasks.start_soon(_end_when_left, receive, tasks.cancel_scope)
                tasks.start_soon(_end_at_drain, self.drain, tasks.cancel_scope)
                await self._send_changes(send)
                tasks.cancel_scope.cancel()
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _send_changes(self, send: Send) -> None:
        status, seen = self.first, self.seen
        while True:
            version = version_of(status)
            if version != seen:
                data = json.dumps(status_document(status), separators=(",", ":"))
                await _send_text(send, f"event: status\nid: {version}\ndata: {data}\n\n")
                seen = version
            if status.is_final:
                return
            status = await self._next(send)

    async def _next(self, send: Send) -> IntentStatus:
        while True:
            with trio.move_on_after(HEARTBEAT_SECONDS):
                return await self.watcher.next()
            await _send_text(send, ": still waiting\n\n")


async def _send_text(send: Send, text: str) -> None:
    await send({"type": "http.response.body", "body": text.encode(), "more_body": True})


async def _end_when_left(receive: Receive, stream: trio.CancelScope) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    stream.cancel()


async def _end_at_drain(drain: Drain, stream: trio.CancelScope) -> None:
    await drain.wait_requested()
    stream.cancel()
