"""Runs on the loop of whoever uses it."""

import anyio


async def rest() -> None:
    await anyio.sleep(1)
