"""Work done every so often by one task: never overlapping, woken early by a hint, backing off when it fails."""

import random
from collections.abc import Awaitable, Callable

import trio

from nursery.drain import Drain

# The wait after the first transient failure; it doubles with each further one.
BACKOFF_SECONDS_FIRST = 0.1


class Hint:
    """A word to a sleeping loop that there is work. Hints given before the loop looks count as one; none is lost."""

    __slots__ = ("_given",)

    def __init__(self) -> None:
        self._given = trio.Event()

    def give(self) -> None:
        """Wake the waiter now, or let its next `wait` return at once."""
        self._given.set()

    async def wait(self) -> None:
        """Return once a hint was given since the last return, and take it. For one waiter only."""
        await self._given.wait()
        self._given = trio.Event()

    def take(self) -> None:
        """Forget the hints given so far, because the work that begins now sees what they spoke of."""
        if self._given.is_set():
            self._given = trio.Event()


def next_delay_seconds(
    *, period_seconds: float, jitter: float, failures: int, backoff_seconds_max: float, chance: float
) -> float:
    """How long to sleep before the next run.

    After a success the period, spread evenly by `jitter` (0.1 is plus or minus a tenth). After `failures` transient
    failures in a row, twice as long each time up to the bound, of which a random half is waited, so that a fleet
    which failed together does not return together.

    `chance` is the random draw, in [0, 1].
    """
    if failures == 0:
        return period_seconds * (1 + jitter * (2 * chance - 1))
    # The exponent is bounded because 2.0 ** 1100 raises OverflowError, after a night of an absent database.
    full = min(BACKOFF_SECONDS_FIRST * 2.0 ** min(failures - 1, 60), backoff_seconds_max)
    return full * (1 + chance) / 2


async def every(
    period_seconds: float,
    work: Callable[[], Awaitable[bool | None]],
    *,
    jitter: float = 0.1,
    hint: Hint | None = None,
    transient: tuple[type[Exception], ...] = (),
    backoff_seconds_max: float = 30,
    on_error: Callable[[Exception, int], None] | None = None,
    stop: Drain | None = None,
) -> None:
    """Run `work` now and then again `period_seconds` after each end, until cancelled or drained.

    `work` returning True says that more is waiting: it runs again at once. A hint ends the sleep early; one given
    while `work` runs causes exactly one further run. After a failure hints are kept but do not shorten the wait: a
    stream of hints must not hammer a service that is down.

    An exception listed in `transient` is told to `on_error` with the count of failures in a row, and `work` runs
    again after a backoff. Any other exception leaves: it is a bug, or a loss that the supervisor must see.

    With `stop` the loop returns when the drain is requested: at once if it sleeps, else after the present run.
    """
    failures = 0
    await trio.lowlevel.checkpoint()
    while stop is None or not stop.requested:
        if hint is not None:
            hint.take()
        more: bool | None = False
        try:
            more = await work()
            failures = 0
        except transient as error:
            failures += 1
            if on_error is not None:
                on_error(error, failures)
        if more:
            # A `work` that never blocks and always has more would else starve every other task.
            await trio.lowlevel.checkpoint()
            continue
        seconds = next_delay_seconds(
            period_seconds=period_seconds,
            jitter=jitter,
            failures=failures,
            backoff_seconds_max=backoff_seconds_max,
            chance=random.random(),  # noqa: S311 - spreads load, guards nothing
        )
        await _sleep(seconds, None if failures else hint, stop)


async def _sleep(seconds: float, hint: Hint | None, stop: Drain | None) -> None:
    """Sleep, but end early on the hint or on the drain."""
    wakers: list[Callable[[], Awaitable[None]]] = []
    if hint is not None:
        wakers.append(hint.wait)
    if stop is not None:
        wakers.append(stop.wait_requested)
    async with trio.open_nursery() as waits:
        for waker in wakers:
            waits.start_soon(_cancel_after, waker, waits.cancel_scope)
        await trio.sleep(seconds)
        waits.cancel_scope.cancel()


async def _cancel_after(waker: Callable[[], Awaitable[None]], scope: trio.CancelScope) -> None:
    await waker()
    scope.cancel()
