"""A TCP proxy that breaks connections on purpose: cut, frozen, or with one chosen answer swallowed."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from urllib.parse import urlsplit

import trio
from attrs import define

from nursery.groups import unwrapped

_ENDED = (trio.BrokenResourceError, trio.ClosedResourceError)


@define(eq=False)
class _Link:
    client: trio.SocketStream
    server: trio.SocketStream
    scope: trio.CancelScope
    # How much of the next answer still passes before the link is cut; None while the trap was not sprung on it.
    passing_bytes: int | None = None


class FaultProxy:
    """Forwards to one loopback port, until a test says otherwise."""

    def __init__(self, upstream_port: int, port: int) -> None:
        self.port = port
        self._upstream_port = upstream_port
        self._links: set[_Link] = set()
        self._flowing = trio.Event()
        self._flowing.set()
        self._trap: bytes | None = None
        self._forwards_trapped = True
        self._passing_bytes = 0
        # While set, new connections are closed as soon as they are made.
        self.refusing = False

    def url_for(self, url: str) -> str:
        """`url` with the proxy's port in the place of its own."""
        parts = urlsplit(url)
        return parts._replace(netloc=f"{parts.netloc.rpartition(':')[0]}:{self.port}").geturl()

    def swallow_answer_to(self, pattern: bytes, *, after_bytes: int = 0) -> None:
        """Let the next request that contains `pattern` through, and cut its connection when the answer comes.

        So many bytes of the answer pass before.
        """
        self._trap, self._forwards_trapped, self._passing_bytes = pattern, True, after_bytes

    def swallow_request(self, pattern: bytes) -> None:
        """Cut the connection instead of forwarding the next request that contains `pattern`."""
        self._trap, self._forwards_trapped = pattern, False

    @property
    def sprung(self) -> bool:
        """Whether the request that was to be swallowed, or whose answer was, has come."""
        return self._trap is None

    def freeze(self) -> None:
        """Forward nothing from now on, in either direction, and keep every connection open."""
        self._flowing = trio.Event()

    def thaw(self) -> None:
        """Forward again, beginning with what was held."""
        self._flowing.set()

    def cut(self) -> None:
        """Close every connection; new ones are served."""
        for link in self._links:
            link.scope.cancel()

    async def serve(self, client: trio.SocketStream) -> None:
        """Forward one connection until either side, or a fault, ends it."""
        if self.refusing:
            await client.aclose()
            return
        server = await trio.open_tcp_stream("127.0.0.1", self._upstream_port)
        async with client, server, trio.open_nursery() as pumps:
            link = _Link(client, server, pumps.cancel_scope)
            self._links.add(link)
            pumps.start_soon(self._pump_requests, link)
            pumps.start_soon(self._pump_answers, link)
        self._links.discard(link)

    async def _pump_requests(self, link: _Link) -> None:
        with suppress(*_ENDED):
            async for chunk in link.client:
                await self._flowing.wait()
                if self._trap is not None and self._trap in chunk:
                    self._trap = None
                    if not self._forwards_trapped:
                        break
                    link.passing_bytes = self._passing_bytes
                await link.server.send_all(chunk)
        link.scope.cancel()

    async def _pump_answers(self, link: _Link) -> None:
        with suppress(*_ENDED):
            async for chunk in link.server:
                await self._flowing.wait()
                passing = chunk if link.passing_bytes is None else chunk[: link.passing_bytes]
                await link.client.send_all(passing)
                if link.passing_bytes is not None:
                    link.passing_bytes -= len(passing)
                if len(passing) < len(chunk):
                    break
        link.scope.cancel()


@asynccontextmanager
async def fault_proxy(url: str) -> AsyncGenerator[FaultProxy]:
    """A proxy before the server of `url`, for as long as the block."""
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    proxy = FaultProxy(urlsplit(url).port or 0, listeners[0].socket.getsockname()[1])
    with unwrapped():
        async with trio.open_nursery() as serving:
            await serving.start(trio.serve_listeners, proxy.serve, listeners)
            yield proxy
            serving.cancel_scope.cancel()
