"""Waiting for a condition with a deadline: what tests do instead of sleeping."""

from collections.abc import Awaitable, Callable
from inspect import isawaitable

import trio

# Long enough to cost nothing, short enough that no test waits noticeably longer than it must.
PAUSE_SECONDS = 0.005
# Whoever has waited long asks less often: most conditions read a server that shares the machine with what is awaited.
PAUSE_SHARE = 0.05
PAUSE_SECONDS_MAX = 0.1


async def until(condition: Callable[[], object | Awaitable[object]], *, seconds: float = 5, what: str = "") -> None:
    """Return once `condition()` (plain or async) is true.

    Raises:
        AssertionError: it was not within `seconds`; `what` says what was waited for.
    """
    began_at = trio.current_time()
    with trio.move_on_after(seconds):
        while True:
            value = condition()
            if isawaitable(value):
                value = await value
            if value:
                return
            waited_seconds = trio.current_time() - began_at
            await trio.sleep(min(max(PAUSE_SECONDS, PAUSE_SHARE * waited_seconds), PAUSE_SECONDS_MAX))
    raise AssertionError(f"Not within {seconds:g} s: {what or condition}")
