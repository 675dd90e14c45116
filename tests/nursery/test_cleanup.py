"""Finishing under cancellation: always to the end, never longer than the deadline."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from functools import partial

import pytest
import trio
import trio.testing

from nursery.asyncio_bridge import open_bridge, run_asyncio
from nursery.cleanup import CleanupExpired, finish
from tests.nursery.cancelling import cancelled_at_each_await


def terminated_too_early() -> None:
    raise AssertionError("on_expiry was called although the cleanup ended in time")


async def test_result_and_arguments_pass(autojump_clock: trio.testing.MockClock) -> None:
    """Goal: finish is transparent in the good case, with and without a watchdog. Method: compare the result."""

    async def add(first: int, second: int) -> int:
        await trio.sleep(1)
        return first + second

    assert await finish(add, 1, 2, seconds=5) == 3
    assert await finish(add, 1, 2, seconds=5, on_expiry=terminated_too_early) == 3
    assert trio.current_time() == 2


@pytest.mark.parametrize("on_expiry", [None, terminated_too_early])
async def test_runs_to_its_end_under_cancellation_which_is_delivered_afterwards(
    autojump_clock: trio.testing.MockClock, on_expiry: Callable[[], None] | None
) -> None:
    """Goal: the shield holds, and hides the cancellation no longer than the cleanup. Method: cancel before it begins;
    the next checkpoint after it must raise."""
    steps: list[str] = []

    async def roll_back() -> None:
        await trio.sleep(1)
        steps.append("rolled back")

    with trio.CancelScope() as scope:
        scope.cancel()
        await finish(roll_back, seconds=5, on_expiry=on_expiry)
        steps.append("after")
        await trio.lowlevel.checkpoint()
        steps.append("never")
    assert steps == ["rolled back", "after"]
    assert scope.cancelled_caught


async def test_expiry_cuts_off_and_names_what(autojump_clock: trio.testing.MockClock) -> None:
    """Goal: a bound on every cleanup. Method: one that never ends; look at time, name, seconds and on_expiry."""
    expired: list[float] = []

    async def frozen() -> None:
        await trio.sleep_forever()

    with pytest.raises(CleanupExpired, match=r"frozen.*3 s") as caught:
        await finish(frozen, seconds=3, on_expiry=lambda: expired.append(trio.current_time()))
    assert expired == [3]
    assert caught.value.seconds == 3
    assert "frozen" in caught.value.what
    with pytest.raises(CleanupExpired):
        await finish(frozen, seconds=3)
    assert trio.current_time() == 6


async def test_expiry_under_cancellation_raises_and_keeps_the_cancellation(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Goal: both are true at once. Method: cancel outside, expire inside, then a checkpoint."""
    with trio.CancelScope() as scope:
        scope.cancel()
        with pytest.raises(CleanupExpired):
            await finish(trio.sleep_forever, seconds=1, on_expiry=lambda: None)
        await trio.lowlevel.checkpoint()
    assert scope.cancelled_caught


async def test_on_expiry_frees_a_cleanup_that_ignores_cancellation() -> None:
    """Goal: a cleanup stuck in asyncio (asyncpg#1356: it waits for a frozen server) is freed at the deadline.
    Method: an asyncio function that swallows cancellation until `terminate` sets its future."""
    freed: list[asyncio.Future[None]] = []

    async def stuck() -> None:
        freed.append(asyncio.get_running_loop().create_future())
        while not freed[0].done():
            with suppress(asyncio.CancelledError):
                await asyncio.shield(freed[0])
        raise ConnectionError("terminated")

    async with open_bridge():
        with trio.fail_after(5), pytest.raises(CleanupExpired, match="stuck") as caught:
            await finish(run_asyncio, stuck, seconds=0.02, on_expiry=lambda: freed[0].set_result(None))
    assert isinstance(caught.value.__cause__, ConnectionError)


async def test_on_expiry_frees_a_trio_cleanup_behind_its_own_wait(autojump_clock: trio.testing.MockClock) -> None:
    """Goal: on_expiry is called even if the cleanup's task never runs again by itself. Method: a low-level wait that
    refuses to be aborted and is rescheduled by on_expiry only."""
    waiting: list[trio.lowlevel.Task] = []

    async def unabortable() -> str:
        waiting.append(trio.lowlevel.current_task())
        await trio.lowlevel.wait_task_rescheduled(lambda _: trio.lowlevel.Abort.FAILED)
        return "answered"

    answer = await finish(unabortable, seconds=2, on_expiry=lambda: trio.lowlevel.reschedule(waiting[0]))
    assert answer == "answered"
    assert trio.current_time() == 2


async def test_error_in_time_passes_bare(autojump_clock: trio.testing.MockClock) -> None:
    """Goal: the caller's `except ConnectionError` works. Method: fail with a cause, with and without a watchdog."""
    cause = OSError("below")

    async def fail() -> None:
        await trio.sleep(1)
        raise ConnectionError("gone") from cause

    for on_expiry in (None, terminated_too_early):
        with pytest.raises(ConnectionError, match="gone") as caught:
            await finish(fail, seconds=5, on_expiry=on_expiry)
        assert caught.value.__cause__ is cause


async def test_end_in_the_tick_of_the_deadline_never_terminates(autojump_clock: trio.testing.MockClock) -> None:
    """Goal: a connection already given back is not terminated. Method: cleanup and deadline end at the same instant,
    many times, because Trio shuffles the tasks of one tick; each time either both sides say ended or both expired."""
    for _ in range(200):
        ended: list[bool] = []
        terminated: list[bool] = []

        async def work(ended: list[bool] = ended) -> None:
            await trio.sleep(1)
            ended.append(True)

        def terminate(ended: list[bool] = ended, terminated: list[bool] = terminated) -> None:
            assert not ended, "terminated after its end"
            terminated.append(True)

        try:
            await finish(work, seconds=1, on_expiry=terminate)
        except CleanupExpired:
            assert terminated
            assert not ended


def test_name_never_shows_arguments() -> None:
    """Goal: no secret in the message. Method: a partial that binds one, run to expiry."""

    async def log_in(password: str) -> None:
        await trio.sleep_forever()

    async def main() -> None:
        with pytest.raises(CleanupExpired) as caught:
            await finish(partial(log_in, "hunter2"), seconds=1)
        assert "log_in" in str(caught.value)
        assert "hunter2" not in str(caught.value)

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))


@pytest.mark.parametrize("on_expiry", [None, terminated_too_early])
async def test_held_thing_is_released_when_cancelled_at_every_await(on_expiry: Callable[[], None] | None) -> None:
    """Goal: the pattern acquire, use, finish(release) never leaks. Method: cancel at each await in turn."""
    held: list[int] = []

    async def release() -> None:
        await trio.lowlevel.checkpoint()
        held.pop()
        await trio.lowlevel.checkpoint()

    async def work() -> None:
        await trio.lowlevel.checkpoint()
        held.append(1)
        try:
            await trio.lowlevel.checkpoint()
        finally:
            await finish(release, seconds=5, on_expiry=on_expiry)
        await trio.lowlevel.checkpoint()

    runs = 0
    async for _ in cancelled_at_each_await(work):
        runs += 1
        assert held == []
    assert runs >= 6
