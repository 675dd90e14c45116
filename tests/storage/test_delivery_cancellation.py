"""Two hundred cancellations at random moments: nothing orphaned, nothing out of step, no connection lost."""

import random

import pytest
import trio
import trio.testing

from storage.bullmq_records import Kept
from storage.delivery import DeliveryQueue
from storage.records import AckOutcome, Completion, Delivery
from storage.redis_client import CONNECTIONS_MAX
from tests.storage.delivery_plane import Plane, a_record, open_plane, queue_on
from tests.waiting import until

pytestmark = pytest.mark.services

CANCELLATIONS = 200
LOCK_SECONDS = 1.0
KEEP_ALL = Kept(count=100_000, age_seconds=3600)


class _Worker:
    """One intake that is cancelled again and again, as a supervisor would."""

    def __init__(self, queue: DeliveryQueue) -> None:
        self.queue = queue
        self.seen: list[str] = []
        self.held: list[Delivery] = []

    async def run(self) -> None:
        while True:
            await self.queue.wait(0.05)
            self.held = await self.queue.fetch(random.choice([1, 3, 10]))
            self.seen.extend(each.delivery_id for each in self.held)
            outcomes = await self.queue.complete_many([Completion(each) for each in self.held])
            assert set(outcomes) <= {AckOutcome.COMPLETED}
            self.held = []


async def test_random_cancellations_orphan_nothing() -> None:
    """Goal: issue 2, must show 7, for the delivery plane.

    Method: publish all along; run a worker and cancel it after a random time, 200 times. In the end every record must
    be completed exactly once with no stalled scan at all: what fetch took it returned, and what complete began it
    ended. Then the connections that Redis counts are within the pools' bounds, and the client reads its own replies.
    """
    async with open_plane(lock_seconds=LOCK_SECONDS, completed_kept=KEEP_ALL) as plane:
        worker = _Worker(plane.queue)
        published: list[str] = []
        for _ in range(CANCELLATIONS):
            records = [a_record() for _ in range(random.randrange(4))]
            published += [each.delivery_id for each in records]
            await plane.queue.publish_many(records)
            with trio.move_on_after(random.random() * 0.02):
                await worker.run()
            # Cancelled between fetch and completion: the worker owns what it holds, as the fetch promises.
            assert set(await plane.queue.complete_many([Completion(each) for each in worker.held])) <= {
                AckOutcome.COMPLETED,
                AckOutcome.LOCK_LOST,
            }
            worker.held = []
        counts = await plane.queue.counts()
        assert counts["active"] == 0
        with trio.move_on_after(0.5):
            await worker.run()
        counts = await plane.queue.counts()
        assert (counts["prioritized"], counts["waiting"], counts["active"]) == (0, 0, 0)
        assert sorted(worker.seen) == sorted(published)
        assert counts["completed"] == len(published)
        await until(lambda: _within_bounds(plane), what="connections within bounds")
        assert await plane.raw("ECHO", "mine") == "mine"


async def test_a_cancelled_caller_fetches_nothing_and_still_ends_what_it_holds() -> None:
    """Goal: before the shield, cancellation wins; ends run. Method: call each inside a cancelled scope."""
    async with open_plane() as plane:
        await plane.queue.publish_many([a_record() for _ in range(4)])
        done, failed, back = await plane.queue.fetch(3)
        with trio.CancelScope() as scope:
            scope.cancel()
            await plane.queue.fetch(1)
        assert scope.cancelled_caught
        assert (await plane.queue.counts())["prioritized"] == 1
        outcomes: list[AckOutcome] = []
        with trio.CancelScope() as scope:
            scope.cancel()
            assert await plane.queue.extend([done, failed, back]) == set()
            outcomes += await plane.queue.complete_many([Completion(done)])
            outcomes.append(await plane.queue.fail(failed, "stop", retry=False))
            outcomes.append(await plane.queue.put_back(back, delay_seconds=60))
        assert outcomes == [AckOutcome.COMPLETED, AckOutcome.FAILED, AckOutcome.PUT_BACK]


async def test_a_fetch_cancelled_in_flight_returns_what_it_took() -> None:
    """Goal: the shield holds from send to reply. Method: cancel while Redis is frozen in the fetch, then thaw."""
    async with open_plane() as plane:
        await plane.queue.publish_many([a_record() for _ in range(3)])
        await plane.queue.fetch(1)
        taken: list[Delivery] = []
        async with trio.open_nursery() as tasks:

            async def fetch() -> None:
                taken.extend(await plane.queue.fetch(2))

            plane.redis.freeze()
            tasks.start_soon(fetch)
            await trio.testing.wait_all_tasks_blocked(0.05)
            tasks.cancel_scope.cancel()
            await trio.lowlevel.cancel_shielded_checkpoint()
            plane.redis.thaw()
        assert len(taken) == 2
        assert (await plane.queue.counts())["active"] == 3


async def test_many_callers_share_few_connections() -> None:
    """Goal: a burst waits instead of failing. Method: 200 calls at once over the bounded pool, half cancelled."""
    async with open_plane() as plane:
        queue = queue_on(plane.server)
        async with trio.open_nursery() as calls:
            for at in range(200):
                calls.start_soon(_counted, queue, 0.001 if at % 2 else 30)
        await until(lambda: _within_bounds(plane), what="connections within bounds")
        assert (await queue.counts())["active"] == 0


async def _counted(queue: DeliveryQueue, seconds: float) -> None:
    with trio.move_on_after(seconds):
        await queue.counts()


async def _within_bounds(plane: Plane) -> bool:
    """Whether Redis counts no more connections than the command pool and one blocking connection may have."""
    info: str = await plane.raw("INFO", "clients")
    [line] = [line for line in info.splitlines() if line.startswith("connected_clients:")]
    return int(line.split(":")[1]) <= CONNECTIONS_MAX + 1
