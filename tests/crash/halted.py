"""What an operator sees of a halted pool, and does about it in a process of its own."""

from __future__ import annotations

import os
import sys

import trio

from tayho.demo.fleet import Replica
from tayho.faults import CRASH_AT
from tests.cli.test_life import _address, _get  # pyright: ignore[reportPrivateUsage]
from tests.crash.world import ENVIRONMENT, World
from tests.waiting import until

_ACT = """
import os, sys, trio
from nursery.asyncio_bridge import open_bridge
from tayho.cli.world import _act
from tayho.faults import arm_from
arm_from(os.environ, sys.argv[2])
print(trio.run(_act, sys.argv[1], "automation", "ada"))
"""


async def act(crashing: World, name: str, crash_at: str | None = None) -> None:
    """`tayho world adopt` or `restart`, which may die at a step."""
    environment = {**os.environ, **crashing.replicas.environment}
    if crash_at is not None:
        environment[CRASH_AT] = crash_at
    ran = await trio.run_process(
        [sys.executable, "-c", _ACT, name, ENVIRONMENT], env=environment, check=False, capture_stderr=True
    )
    assert ran.returncode == (0 if crash_at is None else -9), ran.stderr.decode()


async def until_unready(replica: Replica, *words: str) -> None:
    """Wait until `/readyz` says no, with these words."""
    # It first waits whether another process gives a sign of life.
    await until(lambda: '"http_listening"' in replica.log.read_text(), seconds=120, what="the replica to listen")
    url = await _address(replica)

    async def says() -> bool:
        status, body = await trio.to_thread.run_sync(_get, f"{url}/readyz")
        return status == 503 and all(word in body for word in words)

    await until(says, seconds=30, what=f"/readyz to say {words}")
