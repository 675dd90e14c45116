"""A TCP proxy before Redis that loses what a test tells it to lose."""

import contextlib
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import trio
from attrs import define, frozen


@frozen
class Loss:
    """What is to be lost, once, on the connection whose request holds `needle`."""

    needle: bytes
    # False: the request never reaches Redis. True: it does, and its reply is lost.
    executed: bool
    # So much of the reply still comes through before the connection breaks.
    reply_bytes_passed: int = 0


@define
class _Doomed:
    """One connection that is to break."""

    reply_bytes_left: int


class LosingProxy:
    """Forwards bytes to and from `port`; at a planned loss it breaks that one connection."""

    def __init__(self, port: int) -> None:
        self.target_port = port
        self.port = 0
        # How many losses have happened, and how many connections were ever made.
        self.lost = 0
        self.accepted = 0
        self._planned: Loss | None = None

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}"

    def lose(self, loss: Loss) -> None:
        """Plan the next loss."""
        self._planned = loss

    async def serve_one(self, client: trio.SocketStream) -> None:
        self.accepted += 1
        try:
            server = await trio.open_tcp_stream("127.0.0.1", self.target_port)
        except OSError:
            await client.aclose()
            return
        doom: list[_Doomed] = []
        async with client, server, trio.open_nursery() as pumps:
            pumps.start_soon(self._requests, client, server, doom, pumps.cancel_scope)
            pumps.start_soon(self._replies, server, client, doom, pumps.cancel_scope)

    async def _requests(
        self, client: trio.SocketStream, server: trio.SocketStream, doom: list[_Doomed], both: trio.CancelScope
    ) -> None:
        with contextlib.suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            tail = b""
            async for data in client:
                seen, tail = tail + data, data[-100:]
                planned = self._planned
                if planned is not None and planned.needle in seen:
                    self._planned = None
                    self.lost += 1
                    if not planned.executed:
                        break
                    doom.append(_Doomed(planned.reply_bytes_passed))
                await server.send_all(data)
        both.cancel()

    async def _replies(
        self, server: trio.SocketStream, client: trio.SocketStream, doom: list[_Doomed], both: trio.CancelScope
    ) -> None:
        with contextlib.suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            async for data in server:
                if not doom:
                    await client.send_all(data)
                    continue
                passed = data[: doom[0].reply_bytes_left]
                doom[0].reply_bytes_left -= len(passed)
                await client.send_all(passed)
                if len(passed) < len(data):
                    break
        both.cancel()


@asynccontextmanager
async def losing_proxy(port: int) -> AsyncGenerator[LosingProxy]:
    """A proxy to `port`, listening on a port of its own."""
    proxy = LosingProxy(port)
    async with trio.open_nursery() as serving:
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        proxy.port = listeners[0].socket.getsockname()[1]
        serving.start_soon(trio.serve_listeners, proxy.serve_one, listeners)
        yield proxy
        serving.cancel_scope.cancel()
