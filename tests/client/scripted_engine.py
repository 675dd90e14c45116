"""An HTTP server that plays an engine as a test wants it: a behaviour for each of the next requests, on raw sockets."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, TypeAlias

import trio
from attrs import define, field


class Dropped(Exception):
    """The behaviour wants its connection closed."""


@define
class Request:
    """A request under way, and the stream to answer on."""

    method: str
    path: str
    headers: Mapping[str, str]
    document: Any
    stream: trio.abc.Stream

    async def answer(self, status: int, document: object, headers: Mapping[str, str] | None = None) -> None:
        body = document if isinstance(document, bytes) else json.dumps(document).encode()
        await self.send(head(status, {"content-length": str(len(body)), **(headers or {})}) + body)

    async def send(self, raw: bytes) -> None:
        await self.stream.send_all(raw)

    async def hang(self) -> None:
        """Say nothing more until the client goes away."""
        while await self.stream.receive_some():
            pass
        raise Dropped


Behaviour: TypeAlias = Callable[[Request], Awaitable[None]]


@define
class ScriptedEngine:
    """The running server."""

    url: str
    script: deque[Behaviour] = field(factory=deque[Behaviour])
    requests: list[Request] = field(factory=list[Request])
    connections_open: int = 0

    def behave(self, *behaviours: Behaviour) -> None:
        self.script.extend(behaviours)

    async def serve(self, stream: trio.abc.Stream) -> None:
        self.connections_open += 1
        try:
            async with stream:
                while (request := await _read(stream)) is not None:
                    self.requests.append(request)
                    await self.script.popleft()(request)
        except (Dropped, trio.BrokenResourceError, trio.ClosedResourceError):
            pass
        finally:
            self.connections_open -= 1


@asynccontextmanager
async def scripted_engine() -> AsyncGenerator[ScriptedEngine]:
    """Serve on a loopback port until the end of the block."""
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    engine = ScriptedEngine(f"http://127.0.0.1:{listeners[0].socket.getsockname()[1]}")
    async with trio.open_nursery() as connections:
        await connections.start(trio.serve_listeners, engine.serve, listeners)
        yield engine
        connections.cancel_scope.cancel()


def head(status: int, headers: Mapping[str, str]) -> bytes:
    lines = [f"HTTP/1.1 {status} Whatever", *(f"{name}: {value}" for name, value in headers.items()), "", ""]
    return "\r\n".join(lines).encode()


def answer(status: int, document: object, **headers: str) -> Behaviour:
    """Answer with this."""

    async def behave(request: Request) -> None:
        await request.answer(status, document, {name.replace("_", "-"): value for name, value in headers.items()})

    return behave


def problem(status: int, code: str, detail: str = "", *, request_id: str = "", **headers: str) -> Behaviour:
    """Answer with a problem document."""
    document = {"type": "about:blank", "title": "refused", "status": status, "code": code, "detail": detail}
    document |= {"request_id": request_id}
    return answer(status, document, content_type="application/problem+json", **headers)


async def drop(request: Request) -> None:
    """Take the request and close the connection: a lost answer."""
    raise Dropped


async def hang(request: Request) -> None:
    """Take the request and never answer."""
    await request.hang()


def events(*documents: tuple[str, object], then: Behaviour | None = None) -> Behaviour:
    """A stream of these (id, document), which then ends, or goes on as told."""

    async def behave(request: Request) -> None:
        await request.send(head(200, {"content-type": "text/event-stream", "connection": "close"}))
        await request.send(b"retry: 1000\n\n: a comment keeps the line awake\n\n")
        for name, document in documents:
            await request.send(f"id: {name}\nevent: progress\ndata: {json.dumps(document)}\n\n".encode())
        if then is not None:
            await then(request)
        raise Dropped

    return behave


async def _read(stream: trio.abc.Stream) -> Request | None:
    received = b""
    while b"\r\n\r\n" not in received:
        more = await stream.receive_some()
        if not more:
            return None
        received += more
    lines, _, body = received.partition(b"\r\n\r\n")
    first, *rest = lines.decode().split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in rest)}
    while len(body) < int(headers.get("content-length", "0")):
        body += await stream.receive_some()
    method, path, _ = first.split(" ")
    return Request(method, path, headers, json.loads(body) if body else None, stream)
