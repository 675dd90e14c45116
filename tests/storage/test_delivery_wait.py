"""When a waiting intake wakes, and when it does not."""

import time
from collections.abc import Awaitable, Callable

import pytest
import trio

from storage.errors import QueueUnavailable
from storage.records import AckOutcome
from storage.redis_client import open_redis
from tests.services.proxy import fault_proxy
from tests.storage.delivery_plane import Plane, a_delivery, a_record, open_plane, queue_on
from tests.waiting import until

pytestmark = pytest.mark.services

# What a loaded test machine may add to any wake-up.
SLACK_SECONDS = 1.0


async def test_a_publish_wakes_the_waiter() -> None:
    """Goal: no polling delay. Method: block first, publish then, and measure until the wait returns."""
    async with open_plane() as plane:
        await _settled(plane)
        woken_after = await _seconds_until_woken(plane, lambda: plane.queue.publish_many([a_record()]))
        assert woken_after < SLACK_SECONDS
        assert len(await plane.queue.fetch(5)) == 1


async def test_an_empty_queue_lets_the_waiter_go_after_its_time() -> None:
    """Goal: the wait is bounded and honest. Method: wait 0 and 0.2 s on an empty queue."""
    async with open_plane() as plane:
        await _settled(plane)
        assert not await plane.queue.wait(0)
        began = time.monotonic()
        assert not await plane.queue.wait(0.2)
        assert 0.15 < time.monotonic() - began < 0.2 + SLACK_SECONDS


async def test_a_record_put_back_is_fetched_when_its_delay_has_passed_not_before() -> None:
    """Goal: delays are honoured by the clock. Method: put back for 0.5 s, wait and fetch in a loop, measure."""
    async with open_plane() as plane:
        delivery = await a_delivery(plane.queue)
        assert await plane.queue.put_back(delivery, delay_seconds=0.5) is AckOutcome.PUT_BACK
        began = time.monotonic()
        assert 0.45 < await _seconds_until_fetched(plane, began) < 0.5 + SLACK_SECONDS


async def test_a_delay_that_another_client_made_wakes_a_waiter_that_is_already_blocked() -> None:
    """Goal: the announced time replaces the block. Method: block, let a second queue object put a record back."""
    async with open_plane() as plane:
        other = queue_on(plane.server)
        delivery = await a_delivery(other)
        await _settled(plane)
        woken = await _seconds_until_woken(plane, lambda: other.put_back(delivery, delay_seconds=0.6))
        assert 0.5 < woken < 0.6 + SLACK_SECONDS
        assert len(await plane.queue.fetch(1)) == 1


async def test_a_delay_survives_a_cancelled_wait() -> None:
    """Goal: the time once heard is kept, although its marker is gone. Method: cancel often, then measure."""
    async with open_plane() as plane:
        delivery = await a_delivery(plane.queue)
        await _settled(plane)
        await plane.queue.put_back(delivery, delay_seconds=0.8)
        began = time.monotonic()
        while time.monotonic() - began < 0.5:
            with trio.move_on_after(0.05):
                await plane.queue.wait(10)
        assert 0.7 < await _seconds_until_fetched(plane, began) < 0.8 + SLACK_SECONDS


async def test_a_cancelled_wait_never_costs_the_next_one_its_wake_up() -> None:
    """Goal: a marker popped into a dead reply is made good. Method: wake and cancel at once, many times; wait on."""
    async with open_plane() as plane:
        cut_off = 0
        for _ in range(30):
            told: list[bool] = []

            async def wait() -> None:
                told.append(await plane.queue.wait(10))  # noqa: B023 - ends within the turn

            async with trio.open_nursery() as tasks:
                tasks.start_soon(wait)
                await until(lambda: _blocked(plane))
                await plane.raw("ZADD", plane.key("marker"), 0, "0")
                tasks.cancel_scope.cancel()
            cut_off += not told
            with trio.fail_after(3):
                assert told or await plane.queue.wait(10)
        assert cut_off, "every wait had its wake-up before the cancellation"


async def test_a_wake_up_in_a_reply_that_nobody_read_is_made_good() -> None:
    """Goal: Redis popped the marker, we never heard. Method: hold that reply, cancel the wait; the next is at once."""
    async with (
        open_plane() as plane,
        fault_proxy(plane.redis.url) as proxy,
        open_redis(proxy.url_for(plane.redis.url)) as server,
    ):
        queue = queue_on(server)
        async with trio.open_nursery() as tasks:
            tasks.start_soon(queue.wait, 10)
            await until(lambda: _blocked(plane))
            proxy.freeze()
            await plane.raw("ZADD", plane.key("marker"), 0, "0")
            await until(lambda: _popped(plane))
            tasks.cancel_scope.cancel()
        proxy.thaw()
        with trio.fail_after(3):
            assert await queue.wait(10)
        assert not await queue.wait(0.01)


async def test_a_wake_up_in_a_broken_reply_is_made_good() -> None:
    """Goal: the same for a connection that breaks. Method: lose the reply; the wait says so; the next is at once."""
    async with (
        open_plane() as plane,
        fault_proxy(plane.redis.url) as proxy,
        open_redis(proxy.url_for(plane.redis.url)) as server,
    ):
        queue = queue_on(server)
        await plane.raw("ZADD", plane.key("marker"), 0, "0")
        proxy.swallow_answer_to(b"BZPOPMIN")
        with pytest.raises(QueueUnavailable):
            await queue.wait(10)
        with trio.fail_after(3):
            assert await queue.wait(10)


async def test_the_end_of_a_rate_limit_wakes_the_waiter() -> None:
    """Goal: BullMQ sets no marker for it, so the clock must. Method: a queue-wide limit of 1 per 0.6 s, two records."""
    async with open_plane() as plane:
        await plane.raw("HSET", plane.key("meta"), "max", 1, "duration", 600)
        await plane.queue.publish_many([a_record(), a_record()])
        assert len(await plane.queue.fetch(2)) == 1
        began = time.monotonic()
        assert 0.4 < await _seconds_until_fetched(plane, began) < 0.6 + SLACK_SECONDS


async def test_a_delay_of_seven_seconds_is_on_time_after_an_idle_wait() -> None:
    """Goal: redis-py's five-second read timeout is not in the way. Method: 7 s delay, one blocking wait, measure."""
    async with open_plane() as plane:
        delivery = await a_delivery(plane.queue)
        assert await plane.queue.put_back(delivery, delay_seconds=7) is AckOutcome.PUT_BACK
        await _settled(plane)
        began = time.monotonic()
        assert await plane.queue.wait(10)
        assert len(await plane.queue.fetch(1)) == 1
        assert time.monotonic() - began < 7 + SLACK_SECONDS


async def _settled(plane: Plane) -> None:
    """Take the wake-ups that are left over from records that are gone."""

    async def quiet() -> bool:
        await plane.queue.fetch(1)
        return not await plane.queue.wait(0.01)

    await until(quiet, what="no wake-up left")


async def _seconds_until_woken(plane: Plane, act: Callable[[], Awaitable[object]]) -> float:
    """Act while a wait is blocked; how long after the act it returned."""
    async with trio.open_nursery() as tasks:
        woken = trio.Event()

        async def wait() -> None:
            assert await plane.queue.wait(10)
            woken.set()

        tasks.start_soon(wait)
        await until(lambda: _blocked(plane))
        began = time.monotonic()
        await act()
        with trio.fail_after(8):
            await woken.wait()
        took = time.monotonic() - began
    return took


async def _seconds_until_fetched(plane: Plane, began: float) -> float:
    async def fetched() -> bool:
        await plane.queue.wait(10)
        return bool(await plane.queue.fetch(5))

    await until(fetched, seconds=9, what="the record to be handed out")
    return time.monotonic() - began


async def _popped(plane: Plane) -> bool:
    return await plane.raw("EXISTS", plane.key("marker")) == 0


async def _blocked(plane: Plane) -> bool:
    return "blocked_clients:1" in await plane.raw("INFO", "clients")
