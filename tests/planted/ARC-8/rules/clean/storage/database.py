"""Plain structured concurrency."""

import trio


async def work(tasks: trio.Nursery) -> None:
    """Start a task in the nursery that was handed in."""
    tasks.start_soon(trio.sleep, 0)
    with trio.CancelScope(shield=False):
        await trio.sleep(0)
