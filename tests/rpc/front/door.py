"""The door of a front: a loopback port that can be shut, so that connections are refused, and opened again."""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable

import trio

_WAITING_MAX = 256


class Door:
    """Serves while it is open. Shut, it keeps its port without listening, and every connection through it is gone."""

    def __init__(
        self, serve: Callable[[trio.SocketStream], Awaitable[None]], clients: trio.Nursery, host: str, port: int = 0
    ) -> None:
        self._serve = serve
        self._clients = clients
        self._host = host
        # Never listens: it keeps the port ours while nobody does.
        self._keeper = _bound(host, port)
        self.port: int = self._keeper.getsockname()[1]
        self._listening: trio.socket.SocketType | None = None
        self._inside = trio.CancelScope()

    def open(self) -> None:
        """Let clients in from now on."""
        if self._listening is None:
            self._listening = _bound(self._host, self.port)
            self._listening.listen(_WAITING_MAX)
            self._inside = trio.CancelScope()
            self._clients.start_soon(self._let_in, self._inside, trio.SocketListener(self._listening))

    def shut(self) -> None:
        """Refuse clients from now on, and drop those inside."""
        if self._listening is not None:
            self._inside.cancel()
            self._listening.close()
            self._listening = None

    def remove(self) -> None:
        """Shut it, and give the port back."""
        self.shut()
        self._keeper.close()

    async def _let_in(self, inside: trio.CancelScope, listener: trio.SocketListener) -> None:
        with inside:
            await trio.serve_listeners(self._serve, [listener])


def _bound(host: str, port: int) -> trio.socket.SocketType:
    plain = socket.socket()
    plain.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    plain.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    plain.bind((host, port))
    return trio.socket.from_stdlib_socket(plain)
