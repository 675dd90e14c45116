"""A server that answers a GET with whatever bytes the test wants, and feeds to ask it by."""

from __future__ import annotations

import json
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager

import trio
from attrs import define, evolve, frozen
from coincurve import PrivateKey

from tayho.custody.derivation import address_of
from tayho.kernel.address import Address
from tayho.kernel.markets import Bounds, Feed, SourceSettings
from tayho.protocol.sources.answers import signed_bytes

NOW = 1_700_000_000
BOUNDS = Bounds(minimum=-1_000, maximum=1_000, age_seconds_max=60, ahead_seconds_max=10)


@define
class Answering:
    """The running server: what it does to the next connections, and how many there were."""

    url: str
    behave: Callable[[trio.abc.Stream], Awaitable[None]]
    connections: int = 0

    def says(self, raw: bytes) -> None:
        """From now on these bytes, and the end of the connection."""

        async def behave(stream: trio.abc.Stream) -> None:
            await stream.send_all(raw)

        self.behave = behave

    def answers(self, document: object) -> None:
        """From now on a proper answer with this JSON."""
        self.says(http_answer(json.dumps(document).encode()))


def http_answer(body: bytes, *, status: str = "200 OK", headers: str = "") -> bytes:
    return f"HTTP/1.1 {status}\r\ncontent-length: {len(body)}\r\n{headers}\r\n".encode() + body


async def hang(stream: trio.abc.Stream) -> None:
    """Say nothing until the client goes away."""
    while await stream.receive_some():
        pass


@asynccontextmanager
async def answering(tls: ssl.SSLContext | None = None) -> AsyncGenerator[Answering]:
    """Serve on a loopback port until the end of the block."""
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port = listeners[0].socket.getsockname()[1]
    server = Answering(f"http{'s' if tls else ''}://127.0.0.1:{port}/fact", hang)

    async def serve(stream: trio.abc.Stream) -> None:
        server.connections += 1
        with trio.move_on_after(20):
            try:
                async with stream:
                    await stream.receive_some()
                    await server.behave(stream)
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                pass

    served = listeners if tls is None else [trio.SSLListener(one, tls, https_compatible=True) for one in listeners]
    async with trio.open_nursery() as connections:
        await connections.start(trio.serve_listeners, serve, served)
        yield server
        connections.cancel_scope.cancel()


def source(location: str = "/nowhere", **changes: object) -> SourceSettings:
    return evolve(SourceSettings(location=location, value_at="/value", timestamp_at="/at"), **changes)


def feed(location: str, bounds: Bounds = BOUNDS, **changes: object) -> Feed:
    return Feed(name="M/fact", source=source(location, **changes), bounds=bounds)


@frozen
class Signer:
    """Who signs answers as a wallet signs messages."""

    key: PrivateKey

    @property
    def address(self) -> Address:
        return address_of(self.key.public_key)

    def envelope(self, payload: str) -> dict[str, str]:
        raw = self.key.sign_recoverable(signed_bytes(payload.encode()), hasher=None)
        return {"payload": payload, "signature": f"0x{(raw[:64] + bytes([raw[64] + 27])).hex()}"}
