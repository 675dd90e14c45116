"""A health face that is really served, and a client that sends exactly the bytes it is given."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager

import trio
from attrs import frozen
from litestar.handlers import HTTPRouteHandler

from tayho.api.health import Health
from tayho.api.heart import Heart
from tayho.api.readiness import Readiness
from tayho.api.serving import listening, serve_http
from tayho.config import Bind

ANSWER_SECONDS = 8


@frozen
class Answer:
    """One HTTP answer, taken apart."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def document(self) -> dict:
        return json.loads(self.body)


@frozen
class Served:
    """A face and where it is served."""

    health: Health
    heart: Heart
    bind: Bind
    stop: trio.Event

    async def exchange(self, octets: bytes) -> bytes:
        """Send the bytes and read until the server closes."""
        with trio.fail_after(ANSWER_SECONDS):
            async with await trio.open_tcp_stream(self.bind.host, self.bind.port) as stream:
                await stream.send_all(octets)
                received = bytearray()
                async for part in stream:
                    received += part
                return bytes(received)

    async def ask(self, path: str, *, method: str = "GET", headers: str = "", body: bytes = b"") -> Answer:
        head = f"{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{headers}\r\n"
        return answer_of(await self.exchange(head.encode() + body))


def answer_of(octets: bytes) -> Answer:
    """The first answer in the bytes, its chunks joined."""
    head, _, body = octets.partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
    if headers.get("transfer-encoding") == "chunked":
        joined = b""
        while body:
            size, _, body = body.partition(b"\r\n")
            joined += body[: int(size, 16)]
            body = body[int(size, 16) + 2 :]
        body = joined
    return Answer(int(first.split()[1]), headers, body)


async def ready() -> Readiness:
    await trio.lowlevel.checkpoint()
    return Readiness()


async def nothing() -> None:
    await trio.lowlevel.checkpoint()


@asynccontextmanager
async def served(
    *,
    readiness: Callable[[], Awaitable[Readiness]] = ready,
    refresh: Callable[[], Awaitable[None]] = nothing,
    render: Callable[[], bytes] = lambda: b"tayho_up 1\n",
    beside: Sequence[HTTPRouteHandler] = (),
    show: Callable[[Readiness], None] = lambda _readiness: None,
) -> AsyncGenerator[Served]:
    """A face served on a free port of loopback, until the block ends."""
    heart, stop = Heart(), trio.Event()
    health = Health(heart, readiness, refresh, render, beside, show)
    async with listening(Bind("127.0.0.1", 0)) as sockets, trio.open_nursery() as tasks:
        tasks.start_soon(health.run)

        async def serve() -> None:
            await serve_http(health.app, sockets, shutdown=stop.wait)
            tasks.cancel_scope.cancel()

        tasks.start_soon(serve)
        yield Served(health, heart, sockets.bind, stop)
        stop.set()
