"""The play: one process at work on every part of the delivery plane, until nothing is left to do."""

from collections.abc import Callable
from functools import partial

import pytest
import trio
from attrs import evolve

from nursery.drain import Drain
from tayho.coordination.types import IdempotencyConflict, Settlement
from tests.sweep.asking import asked_again
from tests.sweep.operating import Operator, retain
from tests.sweep.parts import ENDS, KIND, PAUSED_KIND, PAUSED_PART, RUNNING_PART, SCHEDULED, Handlers, part
from tests.sweep.prologue import prologue
from tests.sweep.scrutiny import Watch, audit, check_ends, is_published, is_quiet
from tests.sweep.stage import Plane, Stage
from tests.waiting import until

QUIET_SECONDS = 12
DRAIN_SECONDS = 2
# One is paused, and not published before it is resumed.
PUBLISHED_AT_FIRST = len(ENDS) - 1
# Enqueued one by one.
_SINGLE = (
    "fails once",
    "fails for ever",
    "postponed",
    "long",
    "not wanted",
    "malformed",
    "confirmed",
    "cancelled",
    PAUSED_PART,
    RUNNING_PART,
)


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
            operator = Operator.of(stage)
            await operator.hold_back()
            # From here on: what is due stays due for no longer than a publisher may be away.
            tasks.start_soon(stage.front.coordination.publish, Drain(seconds=DRAIN_SECONDS))
            await _enqueue(stage.front)
            await operator.replay()
            await _work_until_quiet(stage, operator)
            tasks.cancel_scope.cancel()
    await check_ends(stage.back, ENDS, watch)


async def _enqueue(plane: Plane) -> None:
    """A producer's calls: one, many, in a transaction of its own, the same again, and the same key for another."""
    coordination = plane.coordination
    many = [part(name) for name in ENDS if name.startswith(("plain", "limited", "unwanted"))]
    await asked_again(partial(coordination.enqueue_many, many))
    await asked_again(partial(_enqueue_in_own_transaction, plane))
    for name in _SINGLE:
        await asked_again(partial(coordination.enqueue, part(name)))
    enqueued = await asked_again(partial(coordination.enqueue, part("released")))
    assert await asked_again(partial(coordination.enqueue, part("released"))) == evolve(enqueued, created=False)
    with pytest.raises(IdempotencyConflict):
        await asked_again(partial(coordination.enqueue, evolve(part("released"), request={"part": "another"})))


async def _enqueue_in_own_transaction(plane: Plane) -> None:
    async with plane.database.transaction() as tx:
        await plane.coordination.enqueue(part("in the caller's transaction"), tx=tx)
        batch = [part(name) for name in ENDS if name.startswith("batch")]
        await plane.coordination.enqueue_many(batch, tx=tx)
        with pytest.raises(IdempotencyConflict):
            conflicting = evolve(batch[0], request={"part": "another"})
            await plane.coordination.enqueue_many([part("never recorded"), conflicting], tx=tx)


async def _work_until_quiet(stage: Stage, operator: Operator) -> None:
    coordination, upkeep = stage.front.coordination, Drain(seconds=DRAIN_SECONDS)
    handlers, ended, drain = Handlers(stage.front), trio.Event(), Drain(seconds=DRAIN_SECONDS)
    async with trio.open_nursery() as tasks:
        tasks.start_soon(coordination.schedule, [SCHEDULED], upkeep)
        # Nobody works before, so that the first fetch finds a full queue.
        await until(partial(is_published, stage.back, PUBLISHED_AT_FIRST), what="all but the paused")
        await operator.cancel_waiting()
        tasks.start_soon(coordination.listen)
        tasks.start_soon(coordination.recover_stalled, upkeep)
        tasks.start_soon(_settle, stage)
        tasks.start_soon(_work, stage.front, handlers, drain, ended)
        async with trio.open_nursery() as awaited:
            awaited.start_soon(operator.cancel_running, handlers)
            awaited.start_soon(operator.resume)
            awaited.start_soon(retain, stage)
        await until(
            partial(is_quiet, stage.back), seconds=QUIET_SECONDS, what="every job to end, and the queue to empty"
        )
        await _read(stage.front)
        await operator.look_back()
        await operator.drain()
        drain.request("the play is over")
        with trio.fail_after(QUIET_SECONDS):
            await ended.wait()
        tasks.cancel_scope.cancel()


async def _work(plane: Plane, handlers: Handlers, drain: Drain, ended: trio.Event) -> None:
    """A process, and the next one where it could not register: its supervisor starts it again."""
    by_kind = dict.fromkeys((KIND, PAUSED_KIND), handlers.handle)
    await asked_again(partial(plane.coordination.work, by_kind, drain, "sweep", "0"))
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
    assert await asked_again(reader.ages_by_role) == []
    [schedule] = await asked_again(reader.list_schedules)
    assert schedule.last_slot_at is not None
    assert (await asked_again(plane.queue.counts))["active"] == 0
    live, _ = await asked_again(partial(reader.connections_wanted, 1))
    assert live >= 1
