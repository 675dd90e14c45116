"""The one room that knows asyncio."""

import asyncio


def loop_of() -> asyncio.AbstractEventLoop:
    """The loop."""
    return asyncio.get_running_loop()
