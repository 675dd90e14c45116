"""One request to the engine and its bounded answer. Retries nothing; the only user of the HTTP library here."""

from __future__ import annotations

import ssl
from collections.abc import AsyncGenerator, Callable, Generator, Mapping
from contextlib import aclosing, asynccontextmanager, contextmanager
from datetime import UTC, datetime
from http import HTTPStatus
from importlib.metadata import version
from typing import cast

import anyio
import httpx2
from attrs import field, frozen

from rpc.retry_after import retry_after_seconds
from tayho.client.errors import EngineUrlRefused
from tayho.kernel.json_document import Json

BODY_BYTES_MAX = 64 * 1024
"""Of an answer, and of one event."""
SILENT_SECONDS = 45.0
"""After so long without a byte a stream of events counts as dead: a lost peer sends no farewell."""
CONNECTIONS_MAX = 32
EVENTS_TYPE = "text/event-stream"


class Unanswered(Exception):
    """There was no whole answer; the text says why. Whether the engine got the request is not known."""


@frozen
class HttpAnswer:
    """A status with its whole body."""

    status: int
    body: bytes = field(repr=False)
    retry_after: int | None


@frozen
class Event:
    """One server-sent event; `id` is empty where it has none."""

    id: str
    data: str


class Exchange:
    """Connections to one engine."""

    def __init__(self, http: httpx2.AsyncClient, seconds: float) -> None:
        self._http = http
        self._seconds = seconds

    @classmethod
    @asynccontextmanager
    async def open(cls, url: str, *, attempt_seconds: float, tls: ssl.SSLContext | None) -> AsyncGenerator[Exchange]:
        """Connects lazily; closes every connection at the end. Raises EngineUrlRefused."""
        async with httpx2.AsyncClient(
            base_url=_base(url),
            headers={"user-agent": f"tayho-client/{version('tayho')}", "accept-encoding": "identity"},
            verify=True if tls is None else tls,
            # A proxy or a netrc of the machine's would be a third party that nobody asked for.
            trust_env=False,
            # The whole exchange has a time limit below; a wait for a free connection is part of it.
            timeout=None,
            limits=httpx2.Limits(max_connections=CONNECTIONS_MAX, max_keepalive_connections=CONNECTIONS_MAX),
        ) as http:
            yield cls(http, attempt_seconds)

    async def ask(self, method: str, path: str, body: Mapping[str, Json] | None = None) -> HttpAnswer:
        """Raises Unanswered."""
        with _translated(self._seconds):
            with anyio.fail_after(self._seconds):
                async with self._http.stream(method, path, json=body) as response:
                    return await _answer(response)

    async def listen(self, path: str, last_event_id: str | None, hear: Callable[[Event], bool]) -> HttpAnswer | None:
        """Hand the events behind `last_event_id` to `hear` until it has heard enough, or the engine ends the stream.

        Returns what the engine says instead of a stream, where it does. Raises Unanswered, also for a stream that is
        silent for SILENT_SECONDS, and whatever `hear` raises.
        """
        headers = {"accept": EVENTS_TYPE, **({} if last_event_id is None else {"last-event-id": last_event_id})}
        silence = httpx2.Timeout(self._seconds, read=SILENT_SECONDS)
        with _translated(SILENT_SECONDS):
            async with self._http.stream("GET", path, headers=headers, timeout=silence) as response:
                if response.status_code != HTTPStatus.OK:
                    return await _answer(response)
                async with aclosing(_events(response)) as events:
                    async for event in events:
                        # Without data it is no event by the standard: a pause to keep, or an id alone.
                        if event.data and hear(Event(event.id, event.data)):
                            break
        return None


@contextmanager
def _translated(seconds: float) -> Generator[None]:
    try:
        yield
    except (TimeoutError, httpx2.TimeoutException) as error:
        raise Unanswered(f"nothing was heard for {seconds:g} s") from error
    except (httpx2.HTTPError, OSError) as error:
        raise Unanswered(f"{type(error).__name__}: {error}".rstrip(": ")) from error


def _events(response: httpx2.Response) -> AsyncGenerator[httpx2.ServerSentEvent]:
    # It is a generator, annotated as less; left to the collector, it would be closed outside of its task.
    return cast("AsyncGenerator[httpx2.ServerSentEvent]", aiter(httpx2.EventSource(response, BODY_BYTES_MAX)))


async def _answer(response: httpx2.Response) -> HttpAnswer:
    body = bytearray()
    async with aclosing(response.aiter_raw()) as chunks:
        async for chunk in chunks:
            body += chunk
            if len(body) > BODY_BYTES_MAX:
                raise Unanswered(f"the answer has more than {BODY_BYTES_MAX} bytes")
    return HttpAnswer(
        response.status_code,
        bytes(body),
        retry_after_seconds(response.headers.get("retry-after"), datetime.now(UTC)),
    )


def _base(url: str) -> httpx2.URL:
    try:
        parsed = httpx2.URL(url)
    except httpx2.InvalidURL as error:
        raise EngineUrlRefused(f"the engine's address is no URL: {error}") from error
    if parsed.scheme not in {"http", "https"} or not parsed.host or parsed.query or parsed.fragment:
        raise EngineUrlRefused("the engine's address is http:// or https://, a host and perhaps a path; no query")
    return parsed
