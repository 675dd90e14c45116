"""Periodic work: on time, never overlapping, woken by hints, backing off, ended by the drain."""

import math

import pytest
import trio
import trio.abc
import trio.testing
from hypothesis import given
from hypothesis import strategies as st

from nursery.drain import Drain
from nursery.periodic import BACKOFF_SECONDS_FIRST, Hint, every, next_delay_seconds
from tests.nursery.at_once import AtOnce
from tests.nursery.cancelling import cancelled_at_each_await


class Diary:
    """Work that notes when it ran, taking `seconds`, failing while `failures` lasts."""

    def __init__(self, *, seconds: float = 0, failures: int = 0) -> None:
        self.began: list[float] = []
        self.seconds = seconds
        self.failures = failures
        self.running = 0

    async def work(self) -> bool | None:
        assert self.running == 0, "two runs overlap"
        self.running += 1
        try:
            self.began.append(trio.current_time())
            await trio.sleep(self.seconds)
            if len(self.began) <= self.failures:
                raise ConnectionError("down")
        finally:
            self.running -= 1
        return None


async def test_runs_at_once_and_then_a_period_after_each_end(autojump_clock: trio.testing.MockClock) -> None:
    """Goal: the period counts from the end of a run, so slow work never overlaps. Method: 3 s of work each 10 s."""
    diary = Diary(seconds=3)
    with trio.move_on_after(40):
        await every(10, diary.work, jitter=0)
    assert diary.began == [0, 13, 26, 39]


async def test_jitter_spreads_the_runs(autojump_clock: trio.testing.MockClock) -> None:
    """Goal: loops started together drift apart, within their bound. Method: 200 gaps of a 10 s period at 10 %."""
    diary = Diary()
    with trio.move_on_after(2000):
        await every(10, diary.work, jitter=0.1)
    gaps = [later - sooner for sooner, later in zip(diary.began, diary.began[1:], strict=False)]
    assert all(8.999 <= gap <= 11.001 for gap in gaps)
    assert max(gaps) - min(gaps) > 1


async def test_more_runs_again_at_once_and_lets_others_run(autojump_clock: trio.testing.MockClock) -> None:
    """Goal: a backlog is worked off without waiting and without starving the process. Method: 100 runs that say more,
    with no await of their own, beside a task that counts its turns meanwhile; then the period returns."""
    began: list[float] = []
    turns = 0

    async def work() -> bool:
        began.append(trio.current_time())
        await AtOnce()
        return len(began) < 100

    async def bystander() -> None:
        nonlocal turns
        while len(began) < 100:
            await trio.lowlevel.checkpoint()
            turns += 1

    with trio.move_on_after(15):
        async with trio.open_nursery() as tasks:
            tasks.start_soon(bystander)
            tasks.start_soon(lambda: every(10, work, jitter=0))
    assert began == [0] * 100 + [10]
    assert turns >= 50


async def test_hint_ends_the_sleep(autojump_clock: trio.testing.MockClock) -> None:
    """Goal: no waiting for the period when there is work. Method: a hint at second 4 of a long period."""
    diary, hint = Diary(), Hint()
    with trio.move_on_after(5):
        async with trio.open_nursery() as tasks:
            tasks.start_soon(lambda: every(1000, diary.work, hint=hint))
            await trio.sleep(4)
            hint.give()
    assert diary.began == [0, 4]


async def test_hints_during_a_run_cause_exactly_one_more(autojump_clock: trio.testing.MockClock) -> None:
    """Goal: a hint that comes after the work has read its table is not lost, and ten are one. Method: ten hints during
    a run of 3 s."""
    diary, hint = Diary(seconds=3), Hint()
    with trio.move_on_after(500):
        async with trio.open_nursery() as tasks:
            tasks.start_soon(lambda: every(1000, diary.work, hint=hint))
            await trio.sleep(1)
            for _ in range(10):
                hint.give()
    assert diary.began == [0, 3]


async def test_hint_given_before_the_loop_begins_is_answered_by_the_first_run(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Goal: no run in vain. Method: a hint before the start; only the first run follows."""
    diary, hint = Diary(), Hint()
    hint.give()
    with trio.move_on_after(500):
        await every(1000, diary.work, hint=hint)
    assert diary.began == [0]


async def test_hint_waits_and_coalesces() -> None:
    """Goal: Hint alone keeps its promise. Method: give twice, wait once, then the next wait blocks."""
    hint = Hint()
    hint.give()
    hint.give()
    await hint.wait()
    with trio.move_on_after(0.01) as scope:
        await hint.wait()
    assert scope.cancelled_caught


async def test_transient_failures_back_off_and_are_told(autojump_clock: trio.testing.MockClock) -> None:
    """Goal: a service that is down is not hammered, and one that is back is used. Method: five failures, then success;
    gaps double, the count grows, the period returns, the count starts again."""
    diary = Diary(failures=5)
    told: list[int] = []
    with trio.move_on_after(100):
        await every(
            60, diary.work, jitter=0, transient=(ConnectionError,), on_error=lambda error, count: told.append(count)
        )
    assert told == [1, 2, 3, 4, 5]
    gaps = [later - sooner for sooner, later in zip(diary.began, diary.began[1:], strict=False)]
    for number, gap in enumerate(gaps[:5]):
        full = BACKOFF_SECONDS_FIRST * 2**number
        assert full / 2 <= gap <= full + 1e-9
    assert gaps[5:] == pytest.approx([60])


async def test_hints_do_not_shorten_a_backoff_and_are_kept(autojump_clock: trio.testing.MockClock) -> None:
    """Goal: a stream of hints cannot hammer a failing service. Method: a hint each 10 ms while every run fails."""
    diary, hint = Diary(failures=1000), Hint()

    async def hints() -> None:
        while True:
            hint.give()
            await trio.sleep(0.01)

    with trio.move_on_after(10):
        async with trio.open_nursery() as tasks:
            tasks.start_soon(hints)
            tasks.start_soon(lambda: every(60, diary.work, hint=hint, transient=(ConnectionError,)))
    assert 5 <= len(diary.began) <= 9


async def test_other_errors_leave_bare(autojump_clock: trio.testing.MockClock) -> None:
    """Goal: a bug is a crash, not a retry. Method: an error that is not listed."""
    with pytest.raises(ConnectionError):
        await every(10, Diary(failures=1).work, transient=(TimeoutError,))


async def test_drain_ends_a_sleeping_loop_at_once_and_a_running_one_after_its_run(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Goal: the stop waits for work, not for sleep. Method: request in sleep, run, backoff, beforehand."""
    for requested_at, ends_at, diary in (
        (5, 5, Diary(seconds=2)),
        (1, 2, Diary(seconds=2)),
        (0.02, 0.02, Diary(failures=9)),
        (0, 0, Diary()),
    ):
        drain, begins_at = Drain(seconds=60), trio.current_time()

        async def request(drain: Drain = drain, seconds: float = requested_at) -> None:
            if seconds:
                await trio.sleep(seconds)
            drain.request("SIGTERM")

        if not requested_at:
            await request()
        async with trio.open_nursery() as tasks:
            tasks.start_soon(request)
            await every(1000, diary.work, stop=drain, transient=(ConnectionError,))
            assert trio.current_time() - begins_at == pytest.approx(ends_at)
        assert len(diary.began) == (1 if requested_at else 0)


async def test_drain_ends_a_loop_that_always_has_more(autojump_clock: trio.testing.MockClock) -> None:
    """Goal: a backlog does not outlast the stop. Method: work that always says more requests the drain in run three."""
    drain, runs = Drain(seconds=60), 0

    async def work() -> bool:
        nonlocal runs
        runs += 1
        await AtOnce()
        if runs == 3:
            drain.request("SIGTERM")
        return True

    await every(10, work, stop=drain)
    assert runs == 3


async def test_idle_loop_takes_no_turns(autojump_clock: trio.testing.MockClock) -> None:
    """Goal: no busy loop. Method: count every task step of the run during one idle hour."""
    steps = 0

    class Counter(trio.abc.Instrument):
        def before_task_step(self, task: trio.lowlevel.Task) -> None:
            nonlocal steps
            steps += 1

    async with trio.open_nursery() as tasks:
        tasks.start_soon(lambda: every(7200, Diary().work, hint=Hint(), stop=Drain(seconds=1)))
        await trio.testing.wait_all_tasks_blocked()
        counter = Counter()
        trio.lowlevel.add_instrument(counter)
        await trio.sleep(3600)
        trio.lowlevel.remove_instrument(counter)
        tasks.cancel_scope.cancel()
    assert steps < 10


async def test_cancelled_at_every_await_leaves_no_waker_and_no_half_run() -> None:
    """Goal: the loop holds nothing after a cancellation. Method: cancel at each await of a loop that drains itself."""
    diary, drain = Diary(), Drain(seconds=1)

    async def work() -> None:
        await every(0.001, diary.work, hint=Hint(), stop=drain)

    with trio.fail_after(10):
        async for number in cancelled_at_each_await(work):
            assert diary.running == 0
            if number == 40:
                drain.request("enough")


FLOATS = st.floats(0, 1)


@given(period=st.floats(0, 86400), jitter=FLOATS, chance=FLOATS)
def test_delay_after_a_success_is_the_period_within_its_jitter(period: float, jitter: float, chance: float) -> None:
    """Goal: bounds of the spread. Method: any period, jitter and draw."""
    delay = next_delay_seconds(period_seconds=period, jitter=jitter, failures=0, backoff_seconds_max=30, chance=chance)
    assert period * (1 - jitter) - 1e-6 <= delay <= period * (1 + jitter) + 1e-6
    assert delay >= 0


@given(failures=st.integers(1, 10**6), limit=st.floats(0.1, 3600), chance=FLOATS)
def test_delay_after_failures_doubles_up_to_the_bound(failures: int, limit: float, chance: float) -> None:
    """Goal: finite and bounded for any number of failures, never less than after fewer at the same draw, and at least
    half of the full wait. Method: compare neighbours."""

    def delay(count: int) -> float:
        return next_delay_seconds(
            period_seconds=1, jitter=0.1, failures=count, backoff_seconds_max=limit, chance=chance
        )

    assert math.isfinite(delay(failures))
    assert min(BACKOFF_SECONDS_FIRST, limit) / 2 <= delay(failures) <= limit
    assert delay(failures) <= delay(failures + 1)
