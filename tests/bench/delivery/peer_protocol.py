"""The other half of tests/bench/delivery/child.py for peers in Python: settings, ready, go, answer."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any, TypeAlias

import click

Settings: TypeAlias = Mapping[str, Any]
# Works off everything that was seeded; how many jobs the peer's own store then calls done.
Burn: TypeAlias = Callable[[], Awaitable[int]]


def measured(prepared: Callable[[Settings], AbstractAsyncContextManager[Burn]]) -> None:
    """Run the process: seed inside `prepared`, and time the burn from `go` to its end."""
    asyncio.run(_measured(prepared))


async def _measured(prepared: Callable[[Settings], AbstractAsyncContextManager[Burn]]) -> None:
    settings = json.loads(sys.stdin.readline())
    async with prepared(settings) as burn:
        click.echo("ready")
        await asyncio.to_thread(sys.stdin.readline)
        threading.Thread(target=end_with_parent, daemon=True).start()
        began = time.perf_counter()
        done = await burn()
        seconds = time.perf_counter() - began
    click.echo(json.dumps({"done": done, "seconds": seconds}))


def end_with_parent() -> None:
    """Standard input ends before we do only when the parent was killed; its servers are gone too, and some peers would
    wait for them for ever. Read by number: a lock on `sys.stdin` would be held at the interpreter's end."""
    while os.read(0, 1):
        pass
    os._exit(1)
