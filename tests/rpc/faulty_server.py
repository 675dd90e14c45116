"""A JSON-RPC server on raw sockets that answers honestly until told otherwise, one scripted behaviour per request.

Each behaviour is a coroutine function that takes the request under way and does to its connection whatever the test
wants of a hostile or broken endpoint. Chain id checks are answered honestly and do not use up the script, unless the
test scripts them too.
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, TypeAlias

import trio
from attrs import define, field

CHAIN_ID = 31337

Behaviour: TypeAlias = "Callable[[Request], Awaitable[None]]"
Result: TypeAlias = "Callable[[dict[str, Any]], object]"


class ConnectionDone(Exception):
    """The behaviour wants its connection closed."""


@define
class Request:
    """A request under way: what was asked, and the raw stream to answer on."""

    stream: trio.abc.Stream
    headers: Mapping[str, str]
    target: str
    document: Any
    body: bytes

    @property
    def calls(self) -> list[dict[str, Any]]:
        return list(self.document) if self.is_batch else [self.document]

    @property
    def is_batch(self) -> bool:
        return isinstance(self.document, list)

    async def send(self, raw: bytes) -> None:
        await self.stream.send_all(raw)

    async def respond(self, body: bytes, *, status: int = 200, headers: Mapping[str, str] | None = None) -> None:
        """A well-formed HTTP answer with this body."""
        await self.send(head(status, {"content-length": str(len(body)), **(headers or {})}) + body)

    async def respond_json(self, document: object, *, status: int = 200) -> None:
        await self.respond(json.dumps(document).encode(), status=status, headers={"content-type": "application/json"})

    async def hang(self) -> None:
        """Say nothing more until the client goes away."""
        while await self.stream.receive_some():
            pass
        raise ConnectionDone


def head(status: int, headers: Mapping[str, str]) -> bytes:
    lines = [f"HTTP/1.1 {status} Whatever", *(f"{name}: {value}" for name, value in headers.items()), "", ""]
    return "\r\n".join(lines).encode()


def envelope(call: dict[str, Any], result: object) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": call["id"], "result": result}


@define
class FaultyServer:
    """The running server. `script` holds the next behaviours; when it is empty, `otherwise` serves."""

    port: int
    otherwise: Behaviour
    tls: bool = False
    script: deque[Behaviour] = field(factory=deque[Behaviour])
    chain_id: int = CHAIN_ID
    scripts_chain_checks: bool = False
    requests: list[Request] = field(factory=list[Request])
    connections_open: int = 0
    connections_total: int = 0

    @property
    def url(self) -> str:
        return f"http{'s' if self.tls else ''}://127.0.0.1:{self.port}"

    def behave(self, *behaviours: Behaviour) -> None:
        """Queue behaviours, one for each of the next requests."""
        self.script.extend(behaviours)

    def asked(self, method: str) -> int:
        """How often a method was asked, alone or in a batch."""
        return sum(call["method"] == method for request in self.requests for call in request.calls)

    async def serve_connection(self, stream: trio.abc.Stream) -> None:
        self.connections_open += 1
        self.connections_total += 1
        try:
            async with stream:
                await self._serve_requests(stream)
        except (ConnectionDone, trio.BrokenResourceError, trio.ClosedResourceError):
            pass
        finally:
            self.connections_open -= 1

    async def _serve_requests(self, stream: trio.abc.Stream) -> None:
        buffer = b""
        while True:
            while b"\r\n\r\n" not in buffer:
                received = await stream.receive_some()
                if not received:
                    return
                buffer += received
            lines, _, buffer = buffer.partition(b"\r\n\r\n")
            request_line, *fields = lines.decode().split("\r\n")
            headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in fields)}
            length = int(headers.get("content-length", "0"))
            while len(buffer) < length:
                received = await stream.receive_some()
                if not received:
                    return
                buffer += received
            body, buffer = buffer[:length], buffer[length:]
            if not body:
                # A redirect that some clients follow with a GET.
                await stream.send_all(head(405, {"content-length": "0"}))
                continue
            await self._serve(Request(stream, headers, request_line.split(" ")[1], json.loads(body), body))

    async def _serve(self, request: Request) -> None:
        self.requests.append(request)
        is_chain_check = request.calls[0]["method"] == "eth_chainId"
        if is_chain_check and not self.scripts_chain_checks:
            await request.respond_json(envelope(request.document, hex(self.chain_id)))
            return
        behaviour = self.script.popleft() if self.script else self.otherwise
        await behaviour(request)


@asynccontextmanager
async def faulty_server(
    otherwise: Behaviour | None = None, *, tls: Any = None, port: int = 0
) -> AsyncGenerator[FaultyServer]:
    """Serve on a loopback port until the end of the block; then every connection is closed."""
    listeners: Any = await trio.open_tcp_listeners(port, host="127.0.0.1")
    server = FaultyServer(
        port=listeners[0].socket.getsockname()[1], otherwise=otherwise or answer("0x10"), tls=tls is not None
    )
    if tls is not None:
        listeners = [trio.SSLListener(listener, tls) for listener in listeners]
    async with trio.open_nursery() as connections:
        await connections.start(trio.serve_listeners, server.serve_connection, listeners)
        yield server
        connections.cancel_scope.cancel()


# Honest behaviours


def answer(result: object | Result) -> Behaviour:
    """Answer every question of the request with `result`, or with `result(call)`."""

    async def behave(request: Request) -> None:
        answers = [envelope(call, result(call) if callable(result) else result) for call in request.calls]
        await request.respond_json(answers if request.is_batch else answers[0])

    return behave


def refuse(code: object, message: object, data: object = None, *, status: int = 200) -> Behaviour:
    """Answer every question with a JSON-RPC error."""

    return refuse_with({"code": code, "message": message} | ({} if data is None else {"data": data}), status=status)


def refuse_with(error: object, *, status: int = 200) -> Behaviour:
    """Answer every question with this error, be it in form or not."""

    async def behave(request: Request) -> None:
        answers = [{"jsonrpc": "2.0", "id": call["id"], "error": error} for call in request.calls]
        await request.respond_json(answers if request.is_batch else answers[0], status=status)

    return behave


# Faulty behaviours


def answer_document(make: Callable[[Any], object], *, status: int = 200) -> Behaviour:
    """Answer with the JSON document that `make` makes of the request's own document."""

    async def behave(request: Request) -> None:
        await request.respond_json(make(request.document), status=status)

    return behave


def answer_body(
    make: bytes | Callable[[Any], bytes], *, status: int = 200, headers: Mapping[str, str] | None = None
) -> Behaviour:
    """Answer with these bytes, whatever they are."""

    async def behave(request: Request) -> None:
        await request.respond(make(request.document) if callable(make) else make, status=status, headers=headers)

    return behave


def answer_raw(raw: bytes, *, close: bool = True) -> Behaviour:
    """Write these bytes instead of an HTTP answer."""

    async def behave(request: Request) -> None:
        await request.send(raw)
        if close:
            raise ConnectionDone

    return behave


async def hang(request: Request) -> None:
    """Never answer."""
    await request.hang()


async def hang_in_headers(request: Request) -> None:
    await request.send(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n")
    await request.hang()


async def hang_in_body(request: Request) -> None:
    await request.send(head(200, {"content-length": "100"}) + b'{"jsonrpc":')
    await request.hang()


def dripping(seconds: float) -> Behaviour:
    """Send an answer a byte each so many seconds: it never ends, but is never silent for long."""

    async def behave(request: Request) -> None:
        await request.send(head(200, {"content-length": "100000"}))
        while True:
            await request.send(b" ")
            await trio.sleep(seconds)

    return behave


drip = dripping(0.02)


async def close_at_once(request: Request) -> None:
    await request.stream.aclose()
    raise ConnectionDone


async def close_in_body(request: Request) -> None:
    await request.send(head(200, {"content-length": "100"}) + b'{"jsonrpc":"2.0",')
    raise ConnectionDone


async def answer_and_close(request: Request) -> None:
    """Answer honestly and close the connection without having said so."""
    await answer("0x10")(request)
    raise ConnectionDone


def gzipped(make: Callable[[Any], object]) -> Behaviour:
    """An honest answer, compressed."""
    return answer_body(
        lambda document: gzip.compress(json.dumps(make(document)).encode()), headers={"content-encoding": "gzip"}
    )


def gzip_bomb(decoded_bytes: int) -> Behaviour:
    """A small body that decodes to very many bytes."""
    compressor = zlib.compressobj(9, zlib.DEFLATED, zlib.MAX_WBITS | 16)
    chunk = b" " * 2**20
    bomb = b"".join(compressor.compress(chunk) for _ in range(decoded_bytes // len(chunk))) + compressor.flush()
    return answer_body(bomb, headers={"content-encoding": "gzip"})


async def endless_body(request: Request) -> None:
    """A chunked body without end, as fast as it goes."""
    await request.send(head(200, {"transfer-encoding": "chunked"}))
    chunk = b"10000\r\n" + b" " * 0x10000 + b"\r\n"
    while True:
        await request.send(chunk)
