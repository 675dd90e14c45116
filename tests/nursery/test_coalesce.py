"""Group commit by example: batching, bounds, failures, cancellation, closing. The property is in the file beside."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress

import pytest
import trio
import trio.testing

from nursery.coalesce import BatchMismatch, Coalescer, CoalescerClosed
from tests.nursery.at_once import AtOnce
from tests.nursery.cancelling import cancelled_at_each_await

Batch = Callable[[Sequence[int]], Awaitable[Sequence[int | Exception]]]


class Doubling:
    """A batch that takes one second and doubles its items, and remembers what it was given."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.in_flight = 0
        self.in_flight_max = 0

    async def __call__(self, items: Sequence[int]) -> Sequence[int | Exception]:
        self.batches.append(list(items))
        self.in_flight += 1
        self.in_flight_max = max(self.in_flight_max, self.in_flight)
        try:
            await trio.sleep(1)
        finally:
            self.in_flight -= 1
        return [item * 2 for item in items]


@asynccontextmanager
async def running(
    batch: Batch, *, items_max: int = 100, queued_max: int = 1000, parallel: int = 1
) -> AsyncGenerator[Coalescer[int, int]]:
    coalescer = Coalescer(batch, name="doubling", items_max=items_max, queued_max=queued_max, parallel=parallel)
    async with trio.open_nursery() as tasks:
        tasks.start_soon(coalescer.run)
        await trio.testing.wait_all_tasks_blocked()
        yield coalescer
        tasks.cancel_scope.cancel()


async def gathered(coalescer: Coalescer[int, int], items: Sequence[int]) -> dict[int, int | Exception]:
    """Submit all at once; each item's result or error."""
    ends: dict[int, int | Exception] = {}

    async def one(item: int) -> None:
        try:
            ends[item] = await coalescer.submit(item)
        except Exception as error:  # noqa: BLE001 - kept as this item's outcome
            ends[item] = error

    async with trio.open_nursery() as callers:
        for item in items:
            callers.start_soon(one, item)
    return ends


async def test_first_goes_alone_and_those_who_come_meanwhile_go_together(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Goal: never wait to fill, batch what gathered. Method: one caller, and during its batch twenty more."""
    doubling = Doubling()
    async with running(doubling) as coalescer, trio.open_nursery() as callers:
        callers.start_soon(coalescer.submit, 0)
        await trio.sleep(0.5)
        assert await gathered(coalescer, range(1, 21)) == {item: item * 2 for item in range(1, 21)}
    assert doubling.batches[0] == [0]
    assert sorted(doubling.batches[1]) == list(range(1, 21))
    assert trio.current_time() == 2


async def test_batch_that_never_blocks_lets_others_run(autojump_clock: trio.testing.MockClock) -> None:
    """Goal: a long queue does not starve the process. Method: fifty single-item batches without an await, beside a task
    that counts its turns meanwhile."""
    given: list[int] = []
    turns = 0

    async def echo(items: Sequence[int]) -> Sequence[int | Exception]:
        given.extend(items)
        await AtOnce()
        return list(items)

    async def bystander() -> None:
        nonlocal turns
        while len(given) < 50:
            await trio.lowlevel.checkpoint()
            turns += 1

    async with running(echo, items_max=1) as coalescer, trio.open_nursery() as tasks:
        tasks.start_soon(bystander)
        await gathered(coalescer, range(50))
    assert turns >= 40


async def test_bounds_of_batch_size_and_order(autojump_clock: trio.testing.MockClock) -> None:
    """Goal: no batch exceeds its size, first come first served. Method: ten in order, four at most."""
    doubling = Doubling()
    async with running(doubling, items_max=4) as coalescer, trio.open_nursery() as callers:
        for item in range(10):
            callers.start_soon(coalescer.submit, item)
            await trio.testing.wait_all_tasks_blocked()
    assert doubling.batches == [[0], [1, 2, 3, 4], [5, 6, 7, 8], [9]]


async def test_parallel_bounds_the_batches_in_flight(autojump_clock: trio.testing.MockClock) -> None:
    """Goal: two lanes are used and no third. Method: six single-item batches of a second need three seconds."""
    doubling = Doubling()
    async with running(doubling, items_max=1, parallel=2) as coalescer:
        assert len(await gathered(coalescer, range(6))) == 6
    assert doubling.in_flight_max == 2
    assert trio.current_time() == 3


async def test_full_queue_makes_callers_wait_and_serves_them_all(autojump_clock: trio.testing.MockClock) -> None:
    """Goal: the queue is bounded and nobody is refused. Method: twelve callers, three places; watch the depth."""
    doubling = Doubling()
    depths: list[int] = []
    async with running(doubling, items_max=2, queued_max=3) as coalescer, trio.open_nursery() as callers:
        for item in range(12):
            callers.start_soon(coalescer.submit, item)
            await trio.testing.wait_all_tasks_blocked()
            depths.append(coalescer.queued)
    assert max(depths) == 3
    assert sorted(item for batch in doubling.batches for item in batch) == list(range(12))


async def test_error_of_one_item_is_raised_to_its_caller_only(autojump_clock: trio.testing.MockClock) -> None:
    """Goal: one refusal harms nobody else. Method: an Exception among the results."""

    async def refuse_odd(items: Sequence[int]) -> Sequence[int | Exception]:
        await AtOnce()
        return [ValueError(str(item)) if item % 2 else item for item in items]

    async with running(refuse_odd) as coalescer:
        ends = await gathered(coalescer, range(6))
    assert {item for item, end in ends.items() if isinstance(end, ValueError) and str(end) == str(item)} == {1, 3, 5}
    assert {item for item, end in ends.items() if end == item} == {0, 2, 4}


async def test_batch_that_raises_raises_to_each_caller_and_the_next_batch_runs(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Goal: an outage reaches every caller as it is, and passes. Method: fail once; look at type, cause and that the
    shared traceback does not grow with the callers."""
    calls = 0

    async def fail_once(items: Sequence[int]) -> Sequence[int | Exception]:
        nonlocal calls
        calls += 1
        await AtOnce()
        if calls == 1:
            raise ConnectionError("down") from OSError("below")
        return list(items)

    async with running(fail_once) as coalescer:
        ends = await gathered(coalescer, range(50))
        errors = list(ends.values())
        assert all(isinstance(error, ConnectionError) and isinstance(error.__cause__, OSError) for error in errors)
        frames, traceback = 0, errors[0].__traceback__ if isinstance(errors[0], Exception) else None
        while traceback is not None:
            frames, traceback = frames + 1, traceback.tb_next
        assert frames < 10
        assert await coalescer.submit(7) == 7


@pytest.mark.parametrize("surplus", [-1, 1])
async def test_wrong_number_of_results_is_our_bug_for_every_caller(
    autojump_clock: trio.testing.MockClock, surplus: int
) -> None:
    """Goal: no caller ever gets another's result. Method: one result too few, one too many."""

    async def miscounts(items: Sequence[int]) -> Sequence[int | Exception]:
        await AtOnce()
        return [0] * (len(items) + surplus)

    async with running(miscounts) as coalescer:
        ends = await gathered(coalescer, range(3))
    assert all(isinstance(end, BatchMismatch) for end in ends.values())


async def test_caller_cancelled_while_queued_is_in_no_batch(autojump_clock: trio.testing.MockClock) -> None:
    """Goal: what the caller gave up is not done. Method: cancel in the very tick in which the lane becomes free, before
    the cancelled task has had its turn."""
    doubling = Doubling()
    async with running(doubling) as coalescer, trio.open_nursery() as callers:
        callers.start_soon(coalescer.submit, 0)
        await trio.testing.wait_all_tasks_blocked()
        async with trio.open_nursery() as given_up:
            given_up.start_soon(coalescer.submit, 1)
            callers.start_soon(coalescer.submit, 2)
            await trio.testing.wait_all_tasks_blocked()
            autojump_clock.jump(1)
            given_up.cancel_scope.cancel()
            assert coalescer.queued == 1
    assert doubling.batches == [[0], [2]]


async def test_caller_cancelled_in_flight_leaves_the_batch_whole(autojump_clock: trio.testing.MockClock) -> None:
    """Goal: one caller's leaving costs its neighbours nothing. Method: cancel one of two during their batch."""
    doubling = Doubling()
    async with running(doubling) as coalescer, trio.open_nursery() as callers:
        results: list[int] = []

        async def stays() -> None:
            results.append(await coalescer.submit(2))

        async with trio.open_nursery() as leaves:
            leaves.start_soon(coalescer.submit, 1)
            callers.start_soon(stays)
            await trio.testing.wait_all_tasks_blocked()
            leaves.cancel_scope.cancel()
    assert doubling.batches in ([[1, 2]], [[2, 1]])
    assert results == [4]


async def test_stopping_the_runner_answers_everyone(autojump_clock: trio.testing.MockClock) -> None:
    """Goal: nobody waits for ever, and each learns whether its item was begun. Method: one in flight, one queued, one
    that waits for room, one that comes afterwards."""
    doubling = Doubling()
    coalescer = Coalescer[int, int](doubling, name="doubling", items_max=1, queued_max=1)
    ends: dict[int, bool] = {}

    async def one(item: int) -> None:
        with pytest.raises(CoalescerClosed, match="doubling") as caught:
            await coalescer.submit(item)
        ends[item] = caught.value.begun

    with trio.fail_after(10):
        async with trio.open_nursery() as callers:
            with trio.move_on_after(0.5):
                async with trio.open_nursery() as tasks:
                    tasks.start_soon(coalescer.run)
                    for item in range(4):
                        callers.start_soon(one, item)
                        await trio.testing.wait_all_tasks_blocked()
        await one(4)
    assert ends == {0: True, 1: False, 2: False, 3: False, 4: False}
    assert doubling.batches == [[0]]


async def test_submit_before_the_runner_waits_for_it(autojump_clock: trio.testing.MockClock) -> None:
    """Goal: the order of start-up does not matter. Method: submit, then run."""
    coalescer = Coalescer[int, int](Doubling(), name="doubling", items_max=1, queued_max=1)
    async with trio.open_nursery() as tasks:

        async def caller() -> None:
            assert await coalescer.submit(3) == 6
            tasks.cancel_scope.cancel()

        tasks.start_soon(caller)
        await trio.testing.wait_all_tasks_blocked()
        await coalescer.run()
    assert trio.current_time() == 1


async def test_second_runner_is_refused(autojump_clock: trio.testing.MockClock) -> None:
    """Goal: the bound on batches in flight cannot be doubled. Method: run twice."""
    async with running(Doubling()) as coalescer:
        with pytest.raises(RuntimeError, match="already run"):
            await coalescer.run()
        assert await coalescer.submit(1) == 2


@pytest.mark.parametrize("bounds", [(0, 1, 1), (1, 0, 1), (1, 1, 0)])
def test_bounds_below_one_are_refused(bounds: tuple[int, int, int]) -> None:
    """Goal: no coalescer that can never answer. Method: each bound at zero."""
    items_max, queued_max, parallel = bounds
    with pytest.raises(ValueError, match="doubling"):
        Coalescer[int, int](Doubling(), name="doubling", items_max=items_max, queued_max=queued_max, parallel=parallel)


async def test_caller_cancelled_at_every_await_gives_its_place_back() -> None:
    """Goal: a place in the queue is never leaked. Method: one place; cancel a caller at each await, queued and waiting
    for room, then prove that the place is free by a caller that succeeds."""

    async def echo(items: Sequence[int]) -> Sequence[int | Exception]:
        await trio.lowlevel.checkpoint()
        return list(items)

    async with running(echo, items_max=1, queued_max=1) as coalescer:

        async def crowd() -> None:
            async with trio.open_nursery() as callers:
                for item in range(3):
                    callers.start_soon(coalescer.submit, item)
                await coalescer.submit(3)

        with trio.fail_after(10):
            async for _ in cancelled_at_each_await(crowd):
                assert await coalescer.submit(9) == 9
                assert coalescer.queued == 0


async def test_runner_cancelled_at_every_await_answers_its_callers() -> None:
    """Goal: whatever await the stop hits, nobody hangs. Method: cancel the runner's owner at each of its awaits while
    three callers wait."""

    async def echo(items: Sequence[int]) -> Sequence[int | Exception]:
        await trio.lowlevel.checkpoint()
        return list(items)

    ends = 0

    async def life() -> None:
        nonlocal ends
        coalescer = Coalescer[int, int](echo, name="echo", items_max=2, queued_max=2)
        ends = 0

        async def caller(item: int) -> None:
            nonlocal ends
            with suppress(CoalescerClosed):
                assert await coalescer.submit(item) == item
            ends += 1

        async with trio.open_nursery() as callers:
            # Shielded, so that the callers' only way out is an answer.
            callers.cancel_scope.shield = True
            for item in range(3):
                callers.start_soon(caller, item)
            with trio.move_on_after(0.05):
                await coalescer.run()

    with trio.fail_after(20):
        async for _ in cancelled_at_each_await(life):
            assert ends == 3
