"""Waiting for a condition with a deadline: what tests do instead of sleeping."""

from collections.abc import Awaitable, Callable
from inspect import isawaitable

import trio

# Long enough to cost nothing, short enough that no test waits noticeably longer than it must.
PAUSE_SECONDS = 0.005


async def until(condition: Callable[[], object | Awaitable[object]], *, seconds: float = 5, what: str = "") -> None:
    """Return once `condition()` (plain or async) is true.

    Raises:
        AssertionError: it was not within `seconds`; `what` says what was waited for.
    """
    with trio.move_on_after(seconds):
        while True:
            value = condition()
            if isawaitable(value):
                value = await value
            if value:
                return
            await trio.sleep(PAUSE_SECONDS)
    raise AssertionError(f"Not within {seconds:g} s: {what or condition}")
