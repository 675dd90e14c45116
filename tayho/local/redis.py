"""A throw-away Redis from the system's redis-server: nothing on disk, nothing evicted."""

import shutil
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from types import MappingProxyType
from uuid import uuid4

from tayho.local.process import Running, Service, ToolMissing, free_port, listening, running


@asynccontextmanager
async def redis(folder: Path) -> AsyncGenerator[Running]:
    """Run a Redis on a loopback port; `.service.url` is its URL.

    Raises:
        ToolMissing: there is no redis-server.
        LocalProcessFailed: it did not come up.
    """
    async with running(prepare(folder)) as process:
        yield process


def prepare(folder: Path, overrides: Mapping[str, str] = MappingProxyType({})) -> Service:
    """Write the configuration below `folder` and say how to run it. `overrides` are redis.conf settings."""
    server = shutil.which("redis-server")
    if server is None:
        raise ToolMissing("redis-server is missing: run `apt-get install redis-server`.")
    port = free_port()
    phrase = uuid4().hex
    settings = {
        "bind": "127.0.0.1",
        "port": str(port),
        "requirepass": phrase,
        "save": '""',
        "appendonly": "no",
        "maxmemory-policy": "noeviction",
        "dir": str(folder),
        **overrides,
    }
    # A file rather than arguments, which every user of the machine can read.
    file = folder / f"redis-{port}.conf"
    file.touch(mode=0o600)
    file.write_text("".join(f"{name} {value}\n" for name, value in settings.items()))
    return Service(
        name="Redis",
        command=(server, str(file)),
        url=f"redis://:{phrase}@127.0.0.1:{port}/0",
        ready=lambda: listening(port),
        log=folder / f"redis-{port}.log",
        folder=folder,
    )
