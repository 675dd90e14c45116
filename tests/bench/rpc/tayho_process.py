"""tayho's pool as a measured process, with the settings that the product has."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping
from typing import Any

import click
import trio

from rpc import methods
from rpc.errors import RpcError
from rpc.pool import ReadPool

CHAIN_ID = 31337


async def main() -> None:
    settings = json.loads(await _line())
    async with ReadPool.open(settings["urls"], chain_id=CHAIN_ID) as pool:
        click.echo("ready")
        first = 1
        while line := await _line():
            order = json.loads(line)
            click.echo(json.dumps(await _read(pool, order, first)))
            first += order["reads"]
    click.echo("{}")


async def _read(pool: ReadPool, order: Mapping[str, Any], first: int) -> Mapping[str, object]:
    # Each read of another address: nothing is shared between callers.
    numbers = iter(range(first, first + order["reads"]))
    milliseconds: list[float] = []
    failed = 0

    async def work() -> None:
        nonlocal failed
        for number in numbers:
            began = time.perf_counter()
            try:
                await pool.ask(methods.balance(number.to_bytes(20, "big"), 16))
            except RpcError:
                failed += 1
            finally:
                milliseconds.append(round(1000 * (time.perf_counter() - began), 2))

    with trio.move_on_after(order["seconds_max"]):
        async with trio.open_nursery() as workers:
            for _ in range(order["in_flight"]):
                workers.start_soon(work)
    return {"milliseconds": milliseconds, "failed": failed}


async def _line() -> str:
    return await trio.to_thread.run_sync(sys.stdin.readline, abandon_on_cancel=True)


if __name__ == "__main__":
    trio.run(main)
