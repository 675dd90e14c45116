"""HTTP connections, each served by Hypercorn's own protocol machine and contained here.

`hypercorn.trio.serve` is not used: an error in one connection leaves it through the nursery that holds all of them, and
a body with a broken chunk is enough for one (hypercorn 0.18.0), so that any client could end the process. It also sends
under a shield without a deadline, so that a client which does not read could hold up its end.
"""

from __future__ import annotations

import logging
from typing import Any, cast

import structlog
import trio
from attrs import frozen
from hypercorn.app_wrappers import ASGIWrapper
from hypercorn.config import Config
from hypercorn.protocol import ProtocolWrapper
from hypercorn.trio.tcp_server import TCPServer
from hypercorn.trio.worker_context import WorkerContext
from hypercorn.typing import ConnectionState

from nursery.groups import unwrap
from tayho.api.http_one import HttpOne

log = structlog.get_logger("tayho.api")

# Those beyond are closed at once: the descriptors of the process belong to its work.
CONNECTIONS_MAX = 64
# A collector that keeps its connection opens another one then.
CONNECTION_SECONDS_MAX = 120.0
# A connection that says nothing, before, within or after a request.
SILENT_SECONDS = 15
HEADER_BYTES_MAX = 16 * 1024


@frozen
class Bounds:
    """What connections may take of the process."""

    connections_max: int
    # From then on a connection's next answer is its last, so that none is cut off between a request and its answer.
    ripe_seconds: float
    # Then it is cut off, whatever is under way.
    seconds_max: float
    # Without a byte from the client, also while it waits for an answer. None where streams are served, and then the
    # application bounds what it waits for; headers are awaited for SILENT_SECONDS in any case.
    silent_seconds: int | None

    @classmethod
    def of_probes(cls) -> Bounds:
        """For what supervisors and collectors ask."""
        return cls(CONNECTIONS_MAX, float("inf"), CONNECTION_SECONDS_MAX, SILENT_SECONDS)


class _Connection(TCPServer):
    """One connection; `spoken` is what it speaks, from its first byte on."""

    spoken: HttpOne

    # Hypercorn sets it once, and has no other place where one says what a connection speaks.
    @property
    def protocol(self) -> ProtocolWrapper:
        return self._wrapper

    @protocol.setter
    def protocol(self, wrapper: ProtocolWrapper) -> None:  # pyright: ignore[reportIncompatibleVariableOverride]
        self.spoken = HttpOne.of(wrapper)
        wrapper.protocol = self.spoken
        self._wrapper = wrapper

    async def _read_data(self) -> None:
        await super()._read_data()
        # Else a connection that its client has closed keeps its place until it would have been closed as idle.
        await self.idle_task.stop()


class Connections:
    """The open connections of one application. No error of theirs leaves `serve`; none outlives `cut_off` for long."""

    def __init__(self, app: object, bounds: Bounds | None = None) -> None:
        self._bounds = bounds or Bounds.of_probes()
        self._app = ASGIWrapper(cast("Any", app))
        self._config = _config(self._bounds)
        self._context = WorkerContext(None)
        self._open: set[trio.SocketStream] = set()
        self._ended = trio.Event()
        # Refused connections are told once, until one is taken again.
        self._is_full = False

    async def serve(self, stream: trio.SocketStream) -> None:
        """Serve one connection to its end, to the bounds of its age, or to an error of its own."""
        if len(self._open) >= self._bounds.connections_max:
            if not self._is_full:
                log.warning("connections_refused", open=len(self._open))
            self._is_full = True
            return
        self._is_full = False
        self._open.add(stream)
        try:
            async with trio.open_nursery() as tasks:
                connection = self._connection(stream)
                tasks.start_soon(self._end_late, connection, stream, tasks.cancel_scope)
                await connection.run()
                tasks.cancel_scope.cancel()
        except Exception as error:  # noqa: BLE001 - recorded: what a client sends must not reach another one
            log.info("connection_failed", error=repr(unwrap(error)))
        finally:
            self._open.discard(stream)
            self._ended.set()

    def _connection(self, stream: trio.SocketStream) -> _Connection:
        # It takes a plain stream as well as one under TLS, and says so only in its body.
        return _Connection(self._app, self._config, self._context, ConnectionState({}), cast("Any", stream))

    async def _end_late(self, connection: _Connection, stream: trio.SocketStream, running: trio.CancelScope) -> None:
        born_at = trio.current_time()
        if self._bounds.ripe_seconds < self._bounds.seconds_max:
            await trio.sleep(self._bounds.ripe_seconds)
            connection.spoken.end_after_answer()
        await trio.sleep_until(born_at + self._bounds.seconds_max)
        stream.socket.close()
        running.cancel()

    async def finish(self) -> None:
        """Close what is idle, and wait for the requests under way."""
        await self._context.terminated.set()
        while self._open:
            self._ended = trio.Event()
            await self._ended.wait()

    def cut_off(self) -> None:
        """End every connection now. Only the closed socket ends a sending that is shielded."""
        for stream in self._open:
            stream.socket.close()


def _config(bounds: Bounds) -> Config:
    config = Config()
    config.accesslog = None
    config.errorlog = logging.getLogger("hypercorn.error")
    config.loglevel = "WARNING"
    config.include_server_header = False
    config.h11_max_incomplete_size = HEADER_BYTES_MAX
    config.keep_alive_timeout = SILENT_SECONDS
    config.read_timeout = bounds.silent_seconds
    return config
