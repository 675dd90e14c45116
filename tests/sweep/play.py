"""The play: one process at work on every part of the delivery plane, until nothing is left to do."""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeVar

import pytest
import trio
from attrs import evolve

from nursery.drain import Drain
from storage.errors import CommitUnknown, QueueUnavailable, ReplyLost, StoreUnavailable
from tayho.coordination import store
from tayho.coordination.types import IdempotencyConflict, Settlement
from tests.sweep.parts import ENDS, KIND, SCHEDULED, Handlers, part
from tests.sweep.prologue import prologue
from tests.sweep.scrutiny import Watch, audit, check_ends, is_published, is_quiet
from tests.sweep.stage import Plane, Stage
from tests.waiting import until

QUIET_SECONDS = 12
DRAIN_SECONDS = 2
TRIES_MAX = 20
# What a caller may hear of a lost connection.
PROMISED = (CommitUnknown, QueueUnavailable, ReplyLost, StoreUnavailable)

R = TypeVar("R")


async def play(stage: Stage, *, fault: Callable[[], None]) -> None:
    """Play once. `fault` is called when the prologue is over: it may set the proxies to lose something.

    Raises:
        AssertionError: a job did not end as it must, or an invariant did not hold on the way or at the end.
    """
    await prologue(stage)
    fault()
    watch = Watch()
    with trio.fail_after(4 * QUIET_SECONDS):
        async with trio.open_nursery() as tasks:
            tasks.start_soon(audit, stage.back, watch)
            await _enqueue(stage.front)
            await _work_until_quiet(stage)
            tasks.cancel_scope.cancel()
    await check_ends(stage.back, ENDS, watch)


async def asked_again(ask: Callable[[], Awaitable[R]]) -> R:
    """The answer of a call that is made again, under the same keys, where the connection broke under it.

    Any other refusal than those promised for that leaves.
    """
    for _ in range(TRIES_MAX):
        try:
            return await ask()
        except PROMISED:
            await trio.sleep(0.02)
    return await ask()


async def _enqueue(plane: Plane) -> None:
    """A producer's calls: one, many, in a transaction of its own, the same again, and the same key for another."""
    coordination = plane.coordination
    many = [part(name) for name in ENDS if name.startswith(("plain", "limited"))]
    await asked_again(partial(coordination.enqueue_many, many))
    await asked_again(partial(_enqueue_in_own_transaction, plane))
    for name in ("fails once", "fails for ever", "postponed", "long", "not wanted", "malformed", "confirmed"):
        await asked_again(partial(coordination.enqueue, part(name)))
    enqueued = await asked_again(partial(coordination.enqueue, part("released")))
    assert await asked_again(partial(coordination.enqueue, part("released"))) == evolve(enqueued, created=False)
    with pytest.raises(IdempotencyConflict):
        await asked_again(partial(coordination.enqueue, evolve(part("released"), request={"part": "another"})))


async def _enqueue_in_own_transaction(plane: Plane) -> None:
    async with plane.database.transaction() as tx:
        await plane.coordination.enqueue(part("in the caller's transaction"), tx=tx)


async def _work_until_quiet(stage: Stage) -> None:
    coordination, upkeep = stage.front.coordination, Drain(seconds=DRAIN_SECONDS)
    ended = trio.Event()
    async with trio.open_nursery() as tasks:
        tasks.start_soon(coordination.schedule, [SCHEDULED], upkeep)
        tasks.start_soon(coordination.publish, upkeep)
        # Nobody works before, so that the first fetch finds a full queue.
        await until(partial(is_published, stage.back, len(ENDS)), what="every job to be published")
        tasks.start_soon(coordination.listen)
        tasks.start_soon(coordination.recover_stalled, upkeep)
        tasks.start_soon(_settle, stage)
        tasks.start_soon(_work, stage.front, ended)
        await until(
            partial(is_quiet, stage.back), seconds=QUIET_SECONDS, what="every job to end, and the queue to empty"
        )
        await _read(stage.front)
        while not ended.is_set():
            await _drain_workers(stage.front)
            with trio.move_on_after(0.3):
                await ended.wait()
        tasks.cancel_scope.cancel()


async def _work(plane: Plane, ended: trio.Event) -> None:
    """A process, and the next one where it could not register: its supervisor starts it again."""
    handlers, drain = Handlers(plane), Drain(seconds=DRAIN_SECONDS)
    await asked_again(partial(plane.coordination.work, {KIND: handlers.handle}, drain, "sweep", "0"))
    ended.set()


async def _settle(stage: Stage) -> None:
    """The reconciler's part: what is `confirming` is final on chain."""
    while True:
        async with stage.back.database.connection() as connection:
            rows = await connection.fetch("SELECT job_id FROM coordination.jobs WHERE state = 'confirming'")
        settlements = [Settlement(row["job_id"], "completed", {"block": 1}) for row in rows]
        if settlements:
            await asked_again(partial(_settle_all, stage.front, settlements))
        await trio.sleep(0.05)


async def _settle_all(plane: Plane, settlements: list[Settlement]) -> None:
    async with plane.database.transaction() as tx:
        await plane.coordination.settle(tx, settlements)


async def _read(plane: Plane) -> None:
    """Whatever people and probes ask."""
    reader = plane.coordination
    [line] = await asked_again(partial(reader.list_recent, lines_max=1))
    record = await asked_again(partial(reader.inspect, line.job_id))
    assert record is not None
    assert record.state == line.state
    assert sum((await asked_again(reader.count_by_state)).values()) == len(ENDS)
    assert (await asked_again(reader.backlog)).rows == 0
    [schedule] = await asked_again(reader.list_schedules)
    assert schedule.last_slot_at is not None
    assert (await asked_again(plane.queue.counts))["active"] == 0
    live, _ = await asked_again(partial(reader.connections_wanted, 1))
    assert live >= 1


async def _drain_workers(plane: Plane) -> None:
    """As an operator does: every instance that beats is asked to drain."""
    for live in await asked_again(plane.coordination.live_workers):

        async def drain(worker_id: object = live.worker_id) -> None:
            async with plane.database.connection() as connection:
                await store.DRAIN_WORKER(connection, worker_id)

        await asked_again(drain)
