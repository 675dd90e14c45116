"""The only shielded scope of the code base: what must be finished although the caller was cancelled."""

from collections.abc import Awaitable, Callable
from math import inf
from typing import TypeVar, TypeVarTuple

import trio

from nursery.groups import unwrapped
from nursery.naming import name_of

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class CleanupExpired(Exception):
    """A cleanup did not end within its deadline and was cut off; whether it took effect is unknown."""

    def __init__(self, what: str, seconds: float) -> None:
        super().__init__(f"{what} did not end within {seconds:g} s and was cut off: its outcome is unknown.")
        self.what = what
        self.seconds = seconds


async def finish(
    fn: Callable[[*Ts], Awaitable[T]],
    *args: *Ts,
    seconds: float,
    on_expiry: Callable[[], None] | None = None,
) -> T:
    """Run `fn(*args)` to its end although the caller is cancelled, for at most `seconds`.

    A cancellation of the caller stays pending and is delivered at its next checkpoint after `finish`.

    At the deadline `fn` is cancelled and `on_expiry` is called at once, while `fn` may still be waiting: asyncpg
    waits without limit for a frozen server to acknowledge a cancellation, and only `terminate()` ends that wait.
    `on_expiry` must be quick and must not raise.

    If `fn` returns in spite of the expiry, its answer is the truth and is returned.

    Raises:
        CleanupExpired: `fn` was cut off, or failed after the deadline (the failure is the cause).
    """
    # Where there is something to call at the deadline, a watchdog keeps it.
    deadline = trio.current_time() + seconds if on_expiry is None else inf
    with trio.CancelScope(shield=True, deadline=deadline) as scope:
        try:
            if on_expiry is None:
                return await fn(*args)
            with unwrapped():
                async with trio.open_nursery() as watchdog:
                    watchdog.start_soon(_expire, scope, seconds, on_expiry)
                    result = await fn(*args)
                    watchdog.cancel_scope.cancel()
                return result
        except Exception as error:
            if scope.cancel_called:
                raise CleanupExpired(_what(fn, args), seconds) from error
            raise
    raise CleanupExpired(_what(fn, args), seconds)


async def _expire(cleanup: trio.CancelScope, seconds: float, on_expiry: Callable[[], None]) -> None:
    """Cut the cleanup off after `seconds`. Its own task, because a cleanup stuck in a wait cannot do it itself.

    Invariant: never once the cleanup has ended, though in the same tick, or `on_expiry` would terminate a connection
    that is in other hands. Ending cancels the watchdog, and Trio gives that precedence over the end of the sleep.
    """
    await trio.sleep(seconds)
    cleanup.cancel()
    on_expiry()


def _what(fn: Callable[..., object], args: tuple[object, ...]) -> str:
    """Name what ran: for `finish(run_asyncio, connection.close)` the second name is the telling one."""
    names = [name_of(fn), *(name_of(arg) for arg in args[:1] if callable(arg))]
    return " of ".join(names)
