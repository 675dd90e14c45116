"""A TCP proxy that breaks connections on purpose: before Redis, PostgreSQL and HTTP alike.

It reads what passes (talk.py and its neighbours), so that a test can name the very request that is lost, or whose
answer is, and can list what went through.
"""

import socket
import struct
from collections import Counter
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from enum import Enum
from typing import Final
from urllib.parse import urlsplit

import trio
from attrs import define, field, frozen

from nursery.groups import unwrapped
from tests.services.http_talk import HttpTalk
from tests.services.postgres_talk import PostgresTalk
from tests.services.redis_talk import RedisTalk
from tests.services.talk import Answer, OpaqueTalk, Request, Talk

_ENDED = (trio.BrokenResourceError, trio.ClosedResourceError)
_TALKS: Final[dict[str, Callable[[], Talk]]] = {
    "redis": RedisTalk,
    "postgresql": PostgresTalk,
    "postgres": PostgresTalk,
    "http": HttpTalk,
}
# A socket that lingers for no time is closed by RST: what was not delivered is thrown away on both sides.
_RESET_ON_CLOSE: Final = struct.pack("ii", 1, 0)


class Way(Enum):
    """A direction through the proxy."""

    REQUESTS = "to the server"
    ANSWERS = "to the client"


@define
class _Trap:
    """Waits for the n-th request of its kind."""

    matches: Callable[[Request], bool]
    left: int
    forwards: bool
    # How much of the answer still passes before the connection is cut.
    passing_bytes: int
    sprung: bool = False

    def springs_on(self, request: Request) -> bool:
        if self.sprung or not self.matches(request):
            return False
        self.left -= 1
        self.sprung = self.left == 0
        return self.sprung


@frozen
class _Doom:
    """The request at which a connection ends, by the trap that it sprang."""

    trap: _Trap
    request: Request


@define(eq=False)
class _Link:
    client: trio.SocketStream
    server: trio.SocketStream
    talk: Talk
    scope: trio.CancelScope
    doom: _Doom | None = None
    # How much of what the server says still passes; None until the answer comes that is to be swallowed.
    passing_bytes: int | None = None
    half_closed: set[Way] = field(factory=set)

    def is_doomed(self, request: Request | None) -> bool:
        return self.doom is not None and self.doom.request is request

    @property
    def is_through(self) -> bool:
        """Whether a request was swallowed, and all that was asked before it is answered."""
        unanswered = self.talk.unanswered
        if self.doom is None or self.doom.trap.forwards:
            return False
        # None are left where the server has said goodbye: that answers whatever was asked.
        return not unanswered or self.is_doomed(unanswered[0])

    def target(self, way: Way) -> trio.SocketStream:
        return self.server if way is Way.REQUESTS else self.client


class FaultProxy:
    """Forwards to one loopback port, until a test says otherwise."""

    def __init__(self, upstream_port: int, port: int, talk: Callable[[], Talk]) -> None:
        self.port = port
        self._upstream_port = upstream_port
        self._talk = talk
        self._links: set[_Link] = set()
        self._flowing = trio.Event()
        self._flowing.set()
        self._delays: dict[Way, float] = {}
        self._dropped: set[Way] = set()
        # In the order in which they were set; each waits until the one before it has sprung.
        self._traps: list[_Trap] = []
        # While set, new connections are closed as soon as they are made.
        self.refusing = False
        # How often each request was seen, by its labels, whether or not it was forwarded.
        self.seen: Counter[str] = Counter()

    def url_for(self, url: str) -> str:
        """`url` with the proxy's port in the place of its own."""
        parts = urlsplit(url)
        return parts._replace(netloc=f"{parts.netloc.rpartition(':')[0]}:{self.port}").geturl()

    def swallow_answer_to(self, what: bytes | str, *, nth: int = 1, after_bytes: int = 0, then: bool = False) -> None:
        """Let the n-th request of this kind through, and cut its connection when the answer comes.

        `what` is a label, or bytes that the request contains. The answers to what was asked before it are delivered,
        and so many bytes of its own. With `then` it waits for the faults before it; else it takes their place.
        """
        self._set_trap(_Trap(_matcher(what), nth, forwards=True, passing_bytes=after_bytes), then)

    def swallow_request(self, what: bytes | str, *, nth: int = 1, then: bool = False) -> None:
        """Cut the connection instead of forwarding the n-th request of this kind, and whatever came after it."""
        self._set_trap(_Trap(_matcher(what), nth, forwards=False, passing_bytes=0), then)

    def swallow_nothing(self) -> None:
        """Forget what was to be swallowed and has not come."""
        self._traps.clear()

    @property
    def sprung(self) -> bool:
        """Whether every request that was to be swallowed, or whose answer was, has come."""
        return all(trap.sprung for trap in self._traps)

    def freeze(self) -> None:
        """Forward nothing from now on, in either direction, and keep every connection open."""
        # Not anew where it is frozen already: nobody would thaw those who wait for the first.
        if self._flowing.is_set():
            self._flowing = trio.Event()

    def thaw(self) -> None:
        """Forward again, beginning with what was held."""
        self._flowing.set()

    def drop(self, *ways: Way) -> None:
        """From now on take what comes these ways and throw it away; every connection stays open."""
        self._dropped |= set(ways)

    def delay(self, way: Way, seconds: float) -> None:
        """Hold every chunk that comes this way for so long; 0 ends it."""
        self._delays[way] = seconds

    def cut(self) -> None:
        """Close every connection; new ones are served."""
        for link in self._links:
            link.scope.cancel()

    def reset(self) -> None:
        """Close every connection by RST, on both sides."""
        for link in self._links:
            for stream in (link.client, link.server):
                stream.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
        self.cut()

    def half_close(self, way: Way) -> None:
        """End one direction of every connection, and only that: its receiver sees the end of the stream."""
        for link in self._links:
            link.half_closed.add(way)
            with suppress(OSError):
                link.target(way).socket.shutdown(socket.SHUT_WR)

    async def serve(self, client: trio.SocketStream) -> None:
        """Forward one connection until either side, or a fault, ends it."""
        if self.refusing:
            await client.aclose()
            return
        server = await trio.open_tcp_stream("127.0.0.1", self._upstream_port)
        async with client, server, trio.open_nursery() as pumps:
            link = _Link(client, server, self._talk(), pumps.cancel_scope)
            self._links.add(link)
            pumps.start_soon(self._pump_requests, link)
            pumps.start_soon(self._pump_answers, link)
        self._links.discard(link)

    async def _pump_requests(self, link: _Link) -> None:
        with suppress(*_ENDED):
            async for chunk in link.client:
                if await self._held_up(Way.REQUESTS):
                    continue
                passing = self._passing_requests(link, link.talk.asked(chunk))
                await self._send(link, Way.REQUESTS, passing)
                if link.is_through:
                    break
                if link.doom is not None and not link.doom.trap.forwards:
                    # The other pump ends the connection, when it has delivered the answers that are due.
                    await trio.sleep_forever()
        link.scope.cancel()

    def _passing_requests(self, link: _Link, requests: list[Request]) -> bytes:
        passing = b""
        for request in requests:
            self.seen.update(request.labels)
            trap = next((trap for trap in self._traps if not trap.sprung), None)
            if link.doom is None and trap is not None and trap.springs_on(request):
                link.doom = _Doom(trap, request)
                if not trap.forwards:
                    break
            passing += request.raw
        return passing

    async def _pump_answers(self, link: _Link) -> None:
        with suppress(*_ENDED):
            async for chunk in link.server:
                if await self._held_up(Way.ANSWERS):
                    continue
                passing, ends = self._passing_answers(link, link.talk.answered(chunk))
                await self._send(link, Way.ANSWERS, passing)
                if ends or link.is_through:
                    break
        link.scope.cancel()

    @staticmethod
    def _passing_answers(link: _Link, answers: list[Answer]) -> tuple[bytes, bool]:
        """What may pass, and whether the connection ends after it."""
        passing = b""
        for answer in answers:
            if link.doom is not None and link.is_doomed(answer.request):
                link.passing_bytes = link.doom.trap.passing_bytes
            part = answer.raw[: link.passing_bytes]
            passing += part
            if link.passing_bytes is not None:
                link.passing_bytes -= len(part)
            if len(part) < len(answer.raw):
                return passing, True
        return passing, False

    async def _held_up(self, way: Way) -> bool:
        """Wait as the faults demand; whether the chunk is to be thrown away."""
        if self._delays.get(way):
            await trio.sleep(self._delays[way])
        await self._flowing.wait()
        return way in self._dropped

    @staticmethod
    async def _send(link: _Link, way: Way, raw: bytes) -> None:
        if way not in link.half_closed:
            await link.target(way).send_all(raw)

    def _set_trap(self, trap: _Trap, then: bool) -> None:
        self._traps = [*(self._traps if then else ()), trap]


def _matcher(what: bytes | str) -> Callable[[Request], bool]:
    if isinstance(what, bytes):
        return lambda request: what in request.raw
    return lambda request: what in request.labels


@asynccontextmanager
async def fault_proxy(url: str) -> AsyncGenerator[FaultProxy]:
    """A proxy before the server of `url`, for as long as the block. It reads the protocol that the URL names."""
    parts = urlsplit(url)
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port = listeners[0].socket.getsockname()[1]
    proxy = FaultProxy(parts.port or 0, port, _TALKS.get(parts.scheme, OpaqueTalk))
    with unwrapped():
        async with trio.open_nursery() as serving:
            await serving.start(trio.serve_listeners, proxy.serve, listeners)
            yield proxy
            serving.cancel_scope.cancel()
