"""One tayho worker as a process of its own: publisher, listener, stalled scan and worker over a handler that does
nothing. It speaks with its parent as tests/bench/delivery/child.py tells, and drains when standard input ends."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any

import click
import trio
from redis.asyncio.connection import AbstractConnection

from nursery.asyncio_bridge import open_bridge
from nursery.collection import calm_collector
from nursery.drain import Drain
from nursery.supervise import supervise
from tayho.coordination.module import Coordination
from tayho.observability.logs import PLAIN, configure_logging
from tests.bench.delivery.plane import KIND, no_op, open_coordination
from tests.bench.delivery.profile_table import new_profile, profile_table

DRAIN_SECONDS = 10


class RoundTrips:
    """Counts what this process sends to Redis: each write is one exchange, however many commands it carries."""

    def __init__(self) -> None:
        self.count = 0

    def install(self) -> None:
        """Count from now on, below every client and pool, so that no rewriting above redis-py's connection escapes."""
        send = AbstractConnection.send_packed_command

        async def counted(connection: AbstractConnection, *args: Any, **kwargs: Any) -> None:
            self.count += 1
            await send(connection, *args, **kwargs)

        AbstractConnection.send_packed_command = counted


async def run(stdin: trio.abc.ReceiveStream, settings: Mapping[str, Any]) -> Mapping[str, Any]:
    """Serve until standard input ends; what it took."""
    # As the daemon does at its start.
    calm_collector()
    trips = RoundTrips()
    trips.install()
    profile = new_profile() if settings["profile"] else None
    async with (
        open_bridge(),
        open_coordination(
            settings["database_url"], settings["redis_url"], concurrency=settings["concurrency"]
        ) as coordination,
    ):
        click.echo("ready")
        await _line(stdin)
        trips.count, began = 0, time.process_time()
        if profile is not None:
            profile.enable()
        await _serve(coordination, stdin)
        if profile is not None:
            profile.disable()
    return {
        "redis_round_trips": trips.count,
        "cpu_seconds": time.process_time() - began,
        "profile": None if profile is None else profile_table(profile),
    }


async def _serve(coordination: Coordination, stdin: trio.abc.ReceiveStream) -> None:
    drain = Drain(seconds=DRAIN_SECONDS)
    with trio.CancelScope() as running:

        async def work() -> None:
            await coordination.work({KIND: no_op}, drain, f"bench-{os.getpid()}", "0")
            running.cancel()

        async def await_end() -> None:
            await _line(stdin)
            drain.request("the measurement is over")

        tasks: dict[str, Callable[[], Awaitable[None]]] = {
            "end": await_end,
            "publisher": partial(coordination.publish, drain),
            "listener": coordination.listen,
            "stalled": partial(coordination.recover_stalled, drain),
            "worker": work,
        }
        await supervise(tasks)


async def _line(stdin: trio.abc.ReceiveStream) -> str:
    """The next line, byte by byte; empty at the end of the stream."""
    line = b""
    while not line.endswith(b"\n"):
        byte = await stdin.receive_some(1)
        if not byte:
            break
        line += byte
    return line.decode()


async def main() -> None:
    """Read the settings, run, answer."""
    configure_logging(PLAIN, stream=sys.stderr)
    async with trio.lowlevel.FdStream(os.dup(0)) as stdin:
        settings = json.loads(await _line(stdin))
        click.echo(json.dumps(await run(stdin, settings)))


if __name__ == "__main__":
    trio.run(main)
