"""The delivery queue while replies are lost, Redis restarts, freezes, or goes away."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
import trio

from storage.delivery import DeliveryQueue
from storage.errors import QueueUnavailable, ReplyLost
from storage.records import AckOutcome, Completion, Delivery, RecordState
from storage.redis_client import open_redis
from tests.services.proxy import FaultProxy, fault_proxy
from tests.storage.delivery_plane import Plane, a_delivery, a_record, open_plane, queue_on, script_digest
from tests.waiting import until

pytestmark = pytest.mark.services

FETCH = script_digest("moveToActive")
FINISH = script_digest("moveToFinished")
ADD = script_digest("addPrioritizedJob")


@asynccontextmanager
async def _behind_proxy() -> AsyncGenerator[tuple[Plane, FaultProxy, DeliveryQueue]]:
    """A plane, a proxy before its Redis, and a second queue object behind the proxy whose scripts are loaded."""
    async with (
        open_plane() as plane,
        fault_proxy(plane.redis.url) as proxy,
        open_redis(proxy.url_for(plane.redis.url)) as server,
    ):
        queue = queue_on(server)
        delivery = await a_delivery(queue)
        assert await queue.complete_many([Completion(delivery)]) == [AckOutcome.COMPLETED]
        yield plane, proxy, queue


async def test_a_lost_fetch_reply_takes_one_job_and_returns_it() -> None:
    """Goal: the two-job trap of a retried fetch. Method: lose the reply after execution; count what is active."""
    async with _behind_proxy() as (plane, proxy, queue):
        records = [a_record() for _ in range(3)]
        await queue.publish_many(records)
        proxy.swallow_answer_to(FETCH)
        [taken] = await queue.fetch(1)
        assert proxy.sprung
        assert taken.delivery_id == records[0].delivery_id
        assert (await plane.queue.counts())["active"] == 1
        assert await queue.complete_many([Completion(taken)]) == [AckOutcome.COMPLETED]
        rest = await queue.fetch(5)
        assert {each.delivery_id for each in rest} == {each.delivery_id for each in records[1:]}


@pytest.mark.parametrize("passed", [0, 1, 700, 2_000])
async def test_a_pipeline_cut_anywhere_loses_no_delivery_and_doubles_none(passed: int) -> None:
    """Goal: partly answered fetches. Method: break the reply after some bytes; fetch on; each record once."""
    async with _behind_proxy() as (plane, proxy, queue):
        records = [a_record() for _ in range(12)]
        await queue.publish_many(records)
        proxy.swallow_answer_to(FETCH, after_bytes=passed)
        taken = await _drained(queue, 12)
        assert proxy.sprung
        assert sorted(each.delivery_id for each in taken) == sorted(each.delivery_id for each in records)
        assert await queue.complete_many([Completion(each) for each in taken]) == [AckOutcome.COMPLETED] * 12
        assert (await plane.queue.counts())["active"] == 0


async def test_a_request_that_never_arrived_is_no_delivery() -> None:
    """Goal: unknown is looked up, not assumed. Method: lose the request; nothing is active; the next fetch works."""
    async with _behind_proxy() as (plane, proxy, queue):
        record = a_record()
        await queue.publish_many([record])
        proxy.swallow_request(FETCH)
        with pytest.raises(QueueUnavailable, match="did not answer"):
            await queue.fetch(1)
        assert (await plane.queue.counts())["active"] == 0
        assert [each.delivery_id for each in await queue.fetch(1)] == [record.delivery_id]


async def test_a_fetch_that_cannot_look_is_resolved_by_the_next() -> None:
    """Goal: no orphan beyond the outage. Method: lose the reply and the connection to look with; fetch again later."""
    async with _behind_proxy() as (plane, proxy, queue):
        record = a_record()
        await queue.publish_many([record])
        proxy.swallow_answer_to(FETCH)
        # No new connection can be had: the look-up fails.
        proxy.refusing = True
        with pytest.raises(QueueUnavailable):
            await queue.fetch(1)
        assert (await plane.queue.counts())["active"] == 1
        with pytest.raises(QueueUnavailable):
            await queue.fetch(1)
        proxy.refusing = False
        [taken] = await queue.fetch(1)
        assert (taken.delivery_id, taken.stalled_count) == (record.delivery_id, 0)
        assert await queue.complete_many([Completion(taken)]) == [AckOutcome.COMPLETED]


async def test_what_is_found_again_is_never_more_than_was_asked_for() -> None:
    """Goal: a caller with two free slots gets two. Method: orphan six, fetch two at a time; all come, each once."""
    async with _behind_proxy() as (_, proxy, queue):
        records = [a_record() for _ in range(6)]
        await queue.publish_many(records)
        proxy.swallow_answer_to(FETCH)
        proxy.refusing = True
        with pytest.raises(QueueUnavailable):
            await queue.fetch(6)
        proxy.refusing = False
        turns = [await queue.fetch(2) for _ in range(3)]
        assert [len(turn) for turn in turns] == [2, 2, 2]
        assert {each.delivery_id for turn in turns for each in turn} == {each.delivery_id for each in records}


async def test_two_fetches_do_not_both_find_a_lost_delivery() -> None:
    """Goal: one delivery, one holder. Method: orphan six, then five fetches at once; every id once."""
    async with _behind_proxy() as (_, proxy, queue):
        await queue.publish_many([a_record() for _ in range(6)])
        proxy.swallow_answer_to(FETCH)
        proxy.refusing = True
        with pytest.raises(QueueUnavailable):
            await queue.fetch(6)
        proxy.refusing = False
        taken: list[Delivery] = []

        async def fetch() -> None:
            taken.extend(await queue.fetch(6))

        async with trio.open_nursery() as fetches:
            for _ in range(5):
                fetches.start_soon(fetch)
        assert len({each.delivery_id for each in taken}) == len(taken) == 6


async def test_a_lost_completion_is_told_and_is_harmless_to_repeat() -> None:
    """Goal: an unknown acknowledgement. Method: lose the reply after execution; ReplyLost; again is benign."""
    async with _behind_proxy() as (_, proxy, queue):
        delivery = await a_delivery(queue)
        proxy.swallow_answer_to(FINISH)
        with pytest.raises(ReplyLost, match="1 of 1"):
            await queue.complete_many([Completion(delivery)])
        assert await queue.states([delivery.delivery_id]) == [RecordState.COMPLETED]
        assert await queue.complete_many([Completion(delivery)]) == [AckOutcome.LOCK_LOST]


@pytest.mark.parametrize("executed", [True, False])
async def test_a_lost_publish_is_told_and_published_again_without_a_double(executed: bool) -> None:
    """Goal: ids absorb a repeated publish (DLV-3). Method: lose request or reply, publish again, count and fetch."""
    async with _behind_proxy() as (plane, proxy, queue):
        records = [a_record() for _ in range(20)]
        (proxy.swallow_answer_to if executed else proxy.swallow_request)(ADD)
        with pytest.raises(ReplyLost, match="of 40"):
            await queue.publish_many(records)
        assert (await plane.queue.counts())["prioritized"] == (20 if executed else 0)
        assert await queue.publish_many(records) == [RecordState.WAITING] * 20
        assert len(await queue.fetch(64)) == 20


async def test_calls_that_may_be_repeated_speak_only_of_an_absent_queue() -> None:
    """Goal: extend, states and scans need no third outcome. Method: lose their replies, expect QueueUnavailable."""
    async with _behind_proxy() as (_, proxy, queue):
        delivery = await a_delivery(queue)
        calls: dict[str, Callable[[], Awaitable[object]]] = {
            "extendLocks": lambda: queue.extend([delivery]),
            "getStateV2": lambda: queue.states([delivery.delivery_id]),
            "getCounts": queue.counts,
            "moveStalledJobsToWait": queue.recover_stalled,
        }
        for script, call in calls.items():
            # Once before, so that Redis knows the script and the call goes by its digest alone.
            await call()
            proxy.swallow_answer_to(script_digest(script))
            with pytest.raises(QueueUnavailable):
                await call()
            assert proxy.sprung


async def test_a_restart_during_the_wait_is_told_and_survived_by_the_same_object() -> None:
    """Goal: a worker resumes after Redis comes back. Method: kill it under the wait; start; wait and fetch again."""
    async with open_plane() as plane:
        await plane.queue.wait(0)
        failed = trio.Event()

        async def wait() -> None:
            with pytest.raises(QueueUnavailable):
                await plane.queue.wait(10)
            failed.set()

        async with trio.open_nursery() as waits:
            waits.start_soon(wait)
            await until(lambda: _blocked(plane))
            await plane.redis.kill()
            with trio.fail_after(5):
                await failed.wait()
        with pytest.raises(QueueUnavailable, match="cannot be reached"):
            await plane.queue.fetch(1)
        with pytest.raises(QueueUnavailable, match="cannot be reached"):
            await plane.queue.publish_many([a_record()])
        await plane.redis.start()
        record = a_record()
        assert await plane.queue.publish_many([record]) == [RecordState.WAITING]
        assert await plane.queue.wait(5)
        assert [each.delivery_id for each in await plane.queue.fetch(5)] == [record.delivery_id]


async def test_a_frozen_redis_costs_each_call_its_deadline_and_no_more() -> None:
    """Goal: nothing hangs. Method: SIGSTOP, each call under a deadline of its own, then thaw and go on."""
    async with open_plane(command_seconds=0.3) as plane:
        delivery = await a_delivery(plane.queue)
        plane.redis.freeze()
        with trio.fail_after(5):
            with pytest.raises(QueueUnavailable):
                await plane.queue.fetch(3)
            with pytest.raises(QueueUnavailable):
                await plane.queue.extend([delivery])
            with pytest.raises(QueueUnavailable):
                await plane.queue.publish_many([a_record()])
            with pytest.raises((QueueUnavailable, ReplyLost)):
                await plane.queue.complete_many([Completion(delivery)])
            assert any("cannot be reached" in problem for problem in await plane.server.check())
        plane.redis.thaw()
        record = a_record()
        assert await plane.queue.publish_many([record]) == [RecordState.WAITING]
        taken = await _drained(plane.queue, 1)
        assert [each.delivery_id for each in taken] == [record.delivery_id]


async def test_a_fetch_that_a_frozen_redis_executes_late_is_found() -> None:
    """Goal: the request in the socket buffer. Method: freeze, let the fetch time out, thaw; a later fetch has it."""
    async with open_plane(command_seconds=0.3) as plane:
        delivery = await a_delivery(plane.queue)
        await plane.queue.complete_many([Completion(delivery)])
        record = a_record()
        await plane.queue.publish_many([record])
        plane.redis.freeze()
        with pytest.raises(QueueUnavailable):
            await plane.queue.fetch(1)
        plane.redis.thaw()
        [taken] = await _drained(plane.queue, 1)
        assert (taken.delivery_id, taken.stalled_count) == (record.delivery_id, 0)
        assert (await plane.queue.counts())["active"] == 1


async def test_idle_connections_of_a_restarted_redis_are_replaced_unseen() -> None:
    """Goal: the first call after an idle restart works. Method: use several connections, restart, call once each."""
    async with open_plane() as plane:
        async with trio.open_nursery() as calls:
            for _ in range(5):
                calls.start_soon(plane.queue.counts)
        await plane.redis.kill()
        await plane.redis.start()
        async with trio.open_nursery() as calls:
            for _ in range(5):
                calls.start_soon(plane.queue.counts)


async def test_a_redis_that_became_read_only_is_unavailable() -> None:
    """Goal: a failover under us is an outage, not a bug. Method: make it a replica; every write says so; undo."""
    async with open_plane() as plane:
        await plane.queue.publish_many([a_record()])
        await plane.raw("REPLICAOF", "127.0.0.1", 1)
        with pytest.raises(QueueUnavailable, match="cannot do the work now"):
            await plane.queue.publish_many([a_record()])
        with pytest.raises(QueueUnavailable, match="cannot do the work now"):
            await plane.queue.fetch(1)
        await plane.raw("REPLICAOF", "NO", "ONE")
        assert len(await plane.queue.fetch(1)) == 1


async def test_a_full_redis_takes_no_record_and_loses_none() -> None:
    """Goal: noeviction refuses, never drops. Method: a memory limit below use; refused; lifted; all there once."""
    async with open_plane() as plane:
        records = [a_record() for _ in range(5)]
        await plane.queue.publish_many(records[:2])
        await plane.raw("CONFIG", "SET", "maxmemory", 1)
        with pytest.raises(QueueUnavailable, match="cannot do the work now"):
            await plane.queue.publish_many(records)
        await plane.raw("CONFIG", "SET", "maxmemory", 0)
        assert await plane.queue.publish_many(records) == [RecordState.WAITING] * 5
        assert len(await plane.queue.fetch(10)) == 5


async def test_a_look_finds_our_own_deliveries_and_gives_them_their_full_lock() -> None:
    """Goal: what is found again is as if just fetched. Method: another's record beside ours; a lock nearly run out."""
    async with open_plane(lock_seconds=30) as plane:
        await a_delivery(plane.queue)
        ours = await a_delivery(plane.queue)
        lock = plane.key(f"{ours.delivery_id}:lock")
        await plane.raw("PEXPIRE", lock, 2_000)
        assert await plane.queue.active_with_token({ours.token, "0" * 32}) == [ours]
        assert await plane.raw("PTTL", lock) > 20_000
        assert await plane.queue.active_with_token({"0" * 32}) == []


async def _drained(queue: DeliveryQueue, count: int) -> list[Delivery]:
    """Fetch until so many deliveries were had, going on over the refusals that a fault may cause."""
    taken: list[Delivery] = []

    async def enough() -> bool:
        try:
            taken.extend(await queue.fetch(count + 5))
        except QueueUnavailable:
            return False
        return len(taken) >= count

    await until(enough, seconds=10, what=f"{count} deliveries")
    return taken


async def _blocked(plane: Plane) -> bool:
    """Whether Redis holds a client in a blocking command."""
    info = await plane.raw("INFO", "clients")
    return "blocked_clients:1" in info
