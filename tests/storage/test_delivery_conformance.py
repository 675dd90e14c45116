"""What every form of Redis must do for a delivery queue: one server, a master that sentinels name, a cluster."""

import random
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import pytest
import trio
from attrs import frozen

from nursery.asyncio_bridge import open_bridge
from storage.delivery import DeliveryQueue
from storage.errors import StorageError
from storage.records import AckOutcome, Completion, RecordState
from storage.redis_client import RedisServer, open_redis
from tests.storage.delivery_plane import PREFIX, QUEUE, a_delivery, a_record, queue_on
from tests.storage.redis_cluster import running_cluster
from tests.storage.redis_process import running_redis
from tests.storage.redis_sentinel import running_sentinel
from tests.waiting import until

pytestmark = pytest.mark.services

FORMS: dict[str, Callable[[], AbstractAsyncContextManager[Any]]] = {
    "single": running_redis,
    "sentinel": running_sentinel,
    "cluster": running_cluster,
}


@frozen
class _Formed:
    """A queue on one of the forms."""

    redis: Any
    server: RedisServer
    queue: DeliveryQueue

    async def on_every_server(self, *command: str) -> None:
        for server in self.redis.servers:
            await server.ask(*command)

    async def blocked_clients(self) -> int:
        return sum([await server.blocked_clients() for server in self.redis.servers])


@asynccontextmanager
async def _open(form: str) -> AsyncGenerator[_Formed]:
    async with FORMS[form]() as redis, open_bridge(), open_redis(redis.url) as server:
        yield _Formed(redis, server, queue_on(server))


@pytest.fixture(params=FORMS)
async def formed(request: pytest.FixtureRequest) -> AsyncIterator[_Formed]:
    async with _open(request.param) as formed:
        yield formed


async def test_it_is_found_ready_and_carries_a_queue_through_its_whole_life(formed: _Formed) -> None:
    """Goal: every operation of the seam. Method: each once, judged by what the queue tells afterwards."""
    queue = formed.queue
    assert await formed.server.check() == []
    assert (formed.server.version or "").split(".")[0].isdigit()
    records = [a_record({"at": at}, attempts=3, backoff_milliseconds=1) for at in range(4)]
    assert await queue.publish_many(records) == [RecordState.WAITING] * 4
    assert await queue.publish_many(records[:1]) == [RecordState.WAITING]
    assert await queue.wait(5)
    done, failed, retried, back = await queue.fetch(10)
    assert [each.data["at"] for each in (done, failed, retried, back)] == [0, 1, 2, 3]
    assert await queue.extend([done, failed, retried, back]) == set()
    assert await queue.complete_many([Completion(done)]) == [AckOutcome.COMPLETED]
    assert await queue.complete_many([Completion(done)]) == [AckOutcome.LOCK_LOST]
    assert await queue.fail(failed, "no", retry=False) is AckOutcome.FAILED
    assert await queue.fail(retried, "again", retry=True) is AckOutcome.RETRIED
    assert await queue.put_back(back, delay_seconds=0) is AckOutcome.PUT_BACK
    again: dict[str, int] = {}

    async def both_are_back() -> bool:
        await queue.wait(1)
        again.update({each.delivery_id: each.attempts_made for each in await queue.fetch(2)})
        return len(again) == 2

    await until(both_are_back, seconds=10, what="the retried record and the one put back")
    assert again == {retried.delivery_id: 1, back.delivery_id: 0}
    assert await queue.states([each.delivery_id for each in records]) == [
        RecordState.COMPLETED,
        RecordState.FAILED,
        RecordState.ACTIVE,
        RecordState.ACTIVE,
    ]
    counts = await queue.counts()
    assert (counts["active"], counts["completed"], counts["failed"], counts["prioritized"]) == (2, 1, 1, 0)


async def test_a_vanished_holder_is_replaced_and_what_it_held_is_found_by_its_token(formed: _Formed) -> None:
    """Goal: stalled recovery and the look for lost fetches. Method: take the lock away; scan; ask by both tokens."""
    stale = await a_delivery(formed.queue)
    assert await formed.queue.active_with_token({stale.token}) == [stale]
    await formed.server.ask_one(("DEL", f"{PREFIX}:{QUEUE}:{stale.delivery_id}:lock"))

    async def recovered() -> bool:
        return stale.delivery_id in await formed.queue.recover_stalled()

    await until(recovered, what="the stalled scan to move the record")
    [current] = await formed.queue.fetch(1)
    assert (current.delivery_id, current.stalled_count) == (stale.delivery_id, 1)
    assert await formed.queue.complete_many([Completion(stale)]) == [AckOutcome.LOCK_LOST]
    assert await formed.queue.active_with_token({stale.token}) == []
    assert await formed.queue.complete_many([Completion(current)]) == [AckOutcome.COMPLETED]


async def test_servers_that_forget_their_scripts_are_taught_again(formed: _Formed) -> None:
    """Goal: SCRIPT FLUSH is no event, wherever it happens. Method: flush every server before each kind of call."""
    await formed.on_every_server("SCRIPT", "FLUSH")
    records = [a_record() for _ in range(3)]
    assert await formed.queue.publish_many(records) == [RecordState.WAITING] * 3
    await formed.on_every_server("SCRIPT", "FLUSH")
    held = await formed.queue.fetch(3)
    assert [each.delivery_id for each in held] == [each.delivery_id for each in records]
    await formed.on_every_server("SCRIPT", "FLUSH")
    assert await formed.queue.complete_many([Completion(each) for each in held]) == [AckOutcome.COMPLETED] * 3


async def test_waiting_queues_wake_each_for_its_own_record(formed: _Formed) -> None:
    """Goal: several queues block at once, and a cancelled wait harms none. Method: three wait, one gives up."""
    queues = [queue_on(formed.server, name=f"queue-{at}") for at in range(3)]
    woken: list[int] = []

    async def wait(at: int, task_status: trio.TaskStatus[trio.CancelScope]) -> None:
        with trio.CancelScope() as scope:
            task_status.started(scope)
            if await queues[at].wait(10):
                woken.append(at)

    with trio.fail_after(10):
        async with trio.open_nursery() as waits:
            scopes = [await waits.start(wait, at) for at in range(3)]

            async def all_blocked() -> bool:
                return await formed.blocked_clients() == 3

            await until(all_blocked, what="three blocked clients")
            scopes[0].cancel()
            for queue in queues:
                await queue.publish_many([a_record()])
    assert sorted(woken) == [1, 2]
    assert [len(await queue.fetch(5)) for queue in queues] == [1, 1, 1]


async def test_cancelled_workers_lose_nothing_and_double_nothing(formed: _Formed) -> None:
    """Goal: the promises of cancellation hold in each form. Method: 40 random cancellations over 60 records."""
    records = [a_record() for _ in range(60)]
    await formed.queue.publish_many(records)
    seen: list[str] = []

    async def work() -> None:
        while True:
            await formed.queue.wait(0.05)
            for delivery in await formed.queue.fetch(random.choice([1, 3])):
                seen.append(delivery.delivery_id)
                await formed.queue.complete_many([Completion(delivery)])

    for _ in range(40):
        with trio.move_on_after(random.random() * 0.02):
            await work()

    async def drained() -> bool:
        with trio.move_on_after(0.2):
            await work()
        return len(seen) >= len(records)

    await until(drained, what="every record to be handled")
    assert sorted(seen) == sorted(each.delivery_id for each in records)
    assert (await formed.queue.counts())["active"] == 0


async def test_an_evicting_server_is_reported_in_each_form(formed: _Formed) -> None:
    """Goal: readiness looks where the work is done. Method: a wrong policy on all servers; one problem per master."""
    await formed.on_every_server("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
    problems = await formed.server.check()
    assert len(problems) == (len(formed.redis.servers) if formed.server.is_cluster else 1)
    assert all("set it to noeviction" in problem for problem in problems)


@pytest.mark.parametrize("form", FORMS)
async def test_an_absent_redis_is_told_and_found_again(form: str) -> None:
    """Goal: an outage of everything ends by itself. Method: kill all servers; refusals in time; start; work."""
    async with FORMS[form]() as redis, open_bridge(), open_redis(redis.url, command_seconds=2) as server:
        queue = queue_on(server)
        await queue.publish_many([a_record()])
        for each in redis.servers:
            await each.kill()
        with trio.fail_after(10):
            [problem] = await server.check()
            assert "cannot be reached" in problem
            with pytest.raises(StorageError):
                await queue.fetch(1)
            with pytest.raises(StorageError):
                await queue.wait(1)
        for each in redis.servers:
            await each.start()

        async def published() -> bool:
            try:
                return await queue.publish_many([record]) == [RecordState.WAITING]
            except StorageError:
                return False

        record = a_record()
        await until(published, seconds=20, what="the queue to take records again")
        assert record.delivery_id in [each.delivery_id for each in await queue.fetch(5)]
