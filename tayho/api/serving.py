"""Serving an ASGI application in the caller's nursery, until it is told to stop."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial

import trio
from attrs import frozen

from nursery.groups import unwrapped
from tayho.api.connections import Bounds, Connections
from tayho.config.settings import Bind
from tayho.refusals import EnvironmentRefused

BACKLOG = 64
# For requests under way when the stop comes; none of ours takes longer.
GRACE_SECONDS = 3.0


class BindRefused(EnvironmentRefused):
    """The address cannot be listened on. Nothing was begun."""

    def __init__(self, bind: Bind, error: OSError, variable: str) -> None:
        super().__init__([f"{variable}: cannot listen on {bind}: {error.strerror or error}"])
        self.bind = bind


@frozen
class Listening:
    """Open listeners, which already queue connections; `bind` tells the port where any free one was asked for."""

    bind: Bind
    listeners: tuple[trio.SocketListener, ...]


@asynccontextmanager
async def listening(bind: Bind, variable: str = "HTTP_BIND") -> AsyncGenerator[Listening]:
    """Listen before anything is begun, so that an address in use is told at once. Raises BindRefused, which names the
    variable that the address came from."""
    try:
        listeners = await trio.open_tcp_listeners(bind.port, host=bind.host, backlog=BACKLOG)
    except OSError as error:
        raise BindRefused(bind, error, variable) from error
    try:
        yield Listening(Bind(bind.host, int(listeners[0].socket.getsockname()[1])), tuple(listeners))
    finally:
        for listener in listeners:
            listener.socket.close()


async def serve_http(
    app: object,
    listening: Listening,
    *,
    shutdown: Callable[[], Awaitable[None]],
    bounds: Bounds | None = None,
    grace_seconds: float = GRACE_SECONDS,
) -> None:
    """Serve until `shutdown` returns; then take no connection more and let requests under way end.

    What is not over after `grace_seconds` is cut off, and everything is at once where the caller is cancelled. Without
    `bounds`, those of probes hold.
    """
    connections = Connections(app, bounds)
    with unwrapped():
        async with trio.open_nursery() as served:
            try:
                async with trio.open_nursery() as accepting:
                    accept = partial(
                        trio.serve_listeners, connections.serve, list(listening.listeners), handler_nursery=served
                    )
                    accepting.start_soon(accept, name="http accept")
                    await shutdown()
                    accepting.cancel_scope.cancel()
                with trio.move_on_after(grace_seconds):
                    await connections.finish()
            finally:
                connections.cut_off()
            served.cancel_scope.cancel()
