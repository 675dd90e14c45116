"""Two-phase stop: the request is heard at once, the deadline cuts off what is left."""

import pytest
import trio
import trio.testing
from hypothesis import given, settings
from hypothesis import strategies as st

from nursery.drain import Bounded, Drain
from tests.nursery.cancelling import cancelled_at_each_await


async def test_request_wakes_waiters_and_the_first_reason_stays(autojump_clock: trio.testing.MockClock) -> None:
    """Goal: idempotent request. Method: two requests at different times; reason and deadline are the first's."""
    drain = Drain(seconds=60)
    assert (drain.requested, drain.reason, drain.seconds_left) == (False, None, float("inf"))
    async with trio.open_nursery() as waiters:
        waiters.start_soon(drain.wait_requested)
        waiters.start_soon(drain.wait_requested)
        await trio.sleep(1)
        drain.request("SIGTERM")
    await trio.sleep(10)
    drain.request("again")
    await drain.wait_requested()
    assert (drain.requested, drain.reason, drain.seconds_left) == (True, "SIGTERM", 50)
    await trio.sleep(100)
    assert drain.seconds_left == 0


async def test_body_that_ends_in_time_is_not_cut_off(autojump_clock: trio.testing.MockClock) -> None:
    """Goal: a clean drain says so. Method: no request; then a body that stops within its seconds."""
    drain = Drain(seconds=60)
    async with drain.bounded() as bounded:
        await trio.sleep(1000)
    assert not bounded.cut_off
    drain.request("SIGTERM")
    async with drain.bounded() as bounded:
        await trio.sleep(59)
    assert not bounded.cut_off


async def test_running_handlers_get_exactly_the_drain_seconds(autojump_clock: trio.testing.MockClock) -> None:
    """Goal: the promise of a worker's stop. Method: intake ends on request; one handler ends in time, one is cut off
    60 seconds after the request."""
    drain = Drain(seconds=60)
    ended: list[tuple[str, float]] = []

    async def handle(name: str, seconds: float) -> None:
        try:
            await trio.sleep(seconds)
            ended.append((name, trio.current_time()))
        except trio.Cancelled:
            ended.append((name + " cut off", trio.current_time()))
            raise

    async with trio.open_nursery() as tasks:
        tasks.start_soon(_request_after, drain, 10)
        async with drain.bounded() as bounded, trio.open_nursery() as handlers:
            handlers.start_soon(handle, "short", 30)
            handlers.start_soon(handle, "long", 1000)
            await drain.wait_requested()
            ended.append(("intake", trio.current_time()))
    assert ended == [("intake", 10), ("short", 30), ("long cut off", 70)]
    assert bounded.cut_off


async def test_bounded_opened_after_the_deadline_cuts_off_at_once(autojump_clock: trio.testing.MockClock) -> None:
    """Goal: a late phase cannot prolong the stop. Method: open it after the seconds are over."""
    drain = Drain(seconds=5)
    drain.request("SIGTERM")
    await trio.sleep(6)
    async with drain.bounded() as bounded:
        await trio.sleep_forever()
    assert bounded.cut_off
    assert trio.current_time() == 6


async def test_body_that_ends_by_itself_past_the_deadline_is_not_cut_off(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Goal: only what was in fact cancelled counts as unfinished. Method: the clock passes the deadline in the last
    step of the body, after its last await."""
    drain = Drain(seconds=5)
    drain.request("SIGTERM")
    async with drain.bounded() as bounded:
        await trio.sleep(1)
        autojump_clock.jump(100)
    assert not bounded.cut_off


async def test_error_leaves_bare_and_outer_cancellation_is_not_cut_off(autojump_clock: trio.testing.MockClock) -> None:
    """Goal: three ends are told apart. Method: raise in the body; cancel from outside."""
    drain = Drain(seconds=5)

    async def fails() -> None:
        async with drain.bounded():
            await trio.sleep(1)
            raise LookupError("absent")

    with pytest.raises(LookupError):
        await fails()
    outcomes: list[Bounded] = []
    with trio.move_on_after(1) as outer:
        async with drain.bounded() as bounded:
            outcomes.append(bounded)
            await trio.sleep_forever()
    assert outer.cancelled_caught
    assert not outcomes[0].cut_off


async def test_error_of_a_handler_while_others_are_cut_off_is_not_lost(autojump_clock: trio.testing.MockClock) -> None:
    """Goal: a crash at the deadline is seen. Method: one handler answers the cut with an error."""
    drain = Drain(seconds=5)
    drain.request("SIGTERM")

    async def fails_when_cut_off() -> None:
        try:
            await trio.sleep_forever()
        finally:
            raise LookupError("absent")

    async def work() -> None:
        async with drain.bounded(), trio.open_nursery() as handlers:
            handlers.start_soon(fails_when_cut_off)
            handlers.start_soon(fails_when_cut_off)

    with pytest.RaisesGroup(LookupError, LookupError):
        await work()


async def test_no_watch_survives_a_cancellation_at_any_await() -> None:
    """Goal: bounded leaves no task behind. Method: cancel at each await; the nursery would hang if one stayed."""
    drain = Drain(seconds=5)

    async def work() -> None:
        async with drain.bounded():
            for _ in range(3):
                await trio.lowlevel.checkpoint()

    with trio.fail_after(5):
        async for _ in cancelled_at_each_await(work):
            pass


@settings(max_examples=60, deadline=None)
@given(
    requested_at=st.floats(0.5, 50), drain_seconds=st.floats(0, 50), lengths=st.lists(st.floats(0.25, 200), max_size=6)
)
def test_each_handler_ends_at_its_own_end_or_at_the_deadline(
    requested_at: float, drain_seconds: float, lengths: list[float]
) -> None:
    """Goal: no handler is cut early and none runs late, for any lengths. Method: compare each end with min(own end,
    request + seconds) on a mock clock."""
    ends: dict[int, float] = {}

    async def handle(number: int, seconds: float) -> None:
        try:
            await trio.sleep(seconds)
        finally:
            ends[number] = trio.current_time()

    async def main() -> bool:
        drain = Drain(seconds=drain_seconds)
        async with trio.open_nursery() as tasks:
            tasks.start_soon(_request_after, drain, requested_at)
            async with drain.bounded() as bounded, trio.open_nursery() as handlers:
                for number, seconds in enumerate(lengths):
                    handlers.start_soon(handle, number, seconds)
        return bounded.cut_off

    cut_off = trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
    deadline = requested_at + drain_seconds
    assert ends == pytest.approx({number: min(length, deadline) for number, length in enumerate(lengths)})
    if all(abs(length - deadline) > 0.001 for length in lengths):
        assert cut_off == any(length > deadline for length in lengths)


async def _request_after(drain: Drain, seconds: float) -> None:
    await trio.sleep(seconds)
    drain.request("SIGTERM")
