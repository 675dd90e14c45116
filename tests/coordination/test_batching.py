"""What a batch carries ends with it, lives again with it, and is let go only where it took no effect (INT-4, INT-7)."""

from __future__ import annotations

from uuid import UUID

import pytest

from storage.errors import Refused
from tayho.coordination.attempts import End, Ends, EndVerdict
from tayho.coordination.control.bulk import BulkControl
from tayho.coordination.control.errors import (
    BatchMayTakeEffect,
    ChildrenElsewhere,
    NotABatch,
    ReplayedWithBatch,
)
from tayho.coordination.control.types import JobFilter
from tayho.coordination.types import Settlement
from tayho.kernel.jobs import Attempt
from tests.coordination.conftest import CHAIN_ID, ENVIRONMENT, SETTINGS, Plane, new_job
from tests.coordination.test_control_jobs import DEED, control_of
from tests.coordination.test_reviving import revive

CHILDREN = 3


async def batch(plane: Plane, key: str = "batch") -> tuple[UUID, list[UUID]]:
    """A queued parent and the children that it carries."""
    async with plane.database.transaction() as tx:
        admitted = await plane.coordination.admit(tx, [new_job(f"{key}-{number}") for number in range(CHILDREN)])
    children = sorted(one.job_id for one in admitted)
    async with plane.database.transaction() as tx:
        parent = await plane.coordination.enqueue(new_job(key), tx=tx)
        assert await plane.coordination.batch_if_pending(tx, parent.job_id, children) == set(children)
        assert await plane.coordination.batch_if_pending(tx, parent.job_id, children) == set()
    return parent.job_id, children


async def states(plane: Plane, job_ids: list[UUID]) -> set[str]:
    return {await plane.state(job_id) for job_id in job_ids}


async def begun(plane: Plane, parent: UUID) -> Attempt:
    one = await plane.begin(parent, await plane.worker())
    assert one.attempt is not None
    return one.attempt


async def mined(plane: Plane, parent: UUID, state: str) -> None:
    """The chain has ended the parent, which owned a nonce, and where it completed each child by its own result."""
    attempt = await begun(plane, parent)
    async with plane.database.transaction() as tx:
        assert await plane.coordination.hold_for_lineage_if_current(tx, [attempt])
        assert await plane.coordination.confirm_if_current(tx, [attempt])
    await settle(plane, parent, state)


async def settle(plane: Plane, parent: UUID, state: str, children: list[UUID] | None = None) -> frozenset[UUID]:
    ends = [Settlement(child, "dead" if number else "completed", {}) for number, child in enumerate(children or [])]
    async with plane.database.transaction() as tx:
        await plane.coordination.settle(tx, [Settlement(parent, state, {"type": "RevertedOnChain"})])
        return await plane.coordination.settle_if_batched(tx, parent, ends)


async def cancelled(plane: Plane, parent: UUID) -> None:
    await control_of(plane).cancel(parent, DEED)


async def ended(plane: Plane, parent: UUID, verdict: EndVerdict) -> None:
    end = End(await begun(plane, parent), verdict, {"reason": "why"})
    await Ends(plane.database, 1).end_all_if_current([end])


async def lost(plane: Plane, parent: UUID) -> None:
    """Its workers die without a word, each time."""
    for _ in range(SETTINGS.attempts_max):
        await begun(plane, parent)
    assert (await plane.begin(parent, await plane.worker())).verdict == "exhausted"


@pytest.mark.parametrize(
    "way", ["cancelled", "failed", "not_actionable", "quarantined", "lost", "reverted", "abandoned"]
)
async def test_however_a_batch_ends_without_an_effect_its_children_end_with_it(plane: Plane, way: str) -> None:
    """Goal: no child waits for a batch that is over (I8), and another batch's are left alone. Method: each way in which
    a job can end that took no effect; the children are dead, and say why and where."""
    parent, children = await batch(plane)
    _, others = await batch(plane, "other")
    match way:
        case "cancelled":
            await cancelled(plane, parent)
        case "failed" | "not_actionable" | "quarantined":
            await ended(plane, parent, way)
        case "lost":
            await lost(plane, parent)
        case "reverted":
            await mined(plane, parent, "dead")
        case _:
            attempt = await begun(plane, parent)
            async with plane.database.transaction() as tx:
                assert await plane.coordination.hold_for_lineage_if_current(tx, [attempt])
                assert await plane.coordination.release_lineage_if_current(tx, attempt, {"reason": "why"})
    assert await states(plane, children) == {"dead"}
    assert await states(plane, others) == {"batched"}
    record = await plane.coordination.inspect(children[0])
    assert record is not None
    assert isinstance(record.last_error, dict)
    assert (record.last_error["type"], record.last_error["batch_job_id"]) == ("BatchEnded", str(parent))
    assert record.last_error["batch_ended"]


async def test_a_replayed_batch_has_its_children_back(plane: Plane) -> None:
    """Goal: INT-7: a dead parent's replay restores its children first. Method: a reverted batch is replayed; its
    children are under it again, and end by their own results, once."""
    parent, children = await batch(plane)
    await mined(plane, parent, "dead")
    await control_of(plane).replay(parent, DEED)
    assert (await plane.state(parent), await states(plane, children)) == ("queued", {"batched"})
    attempt = (await plane.begin(parent, await plane.worker(), generation=2)).attempt
    assert attempt is not None
    async with plane.database.transaction() as tx:
        await plane.coordination.hold_for_lineage_if_current(tx, [attempt])
    assert await settle(plane, parent, "completed", children) == set(children)
    assert await settle(plane, parent, "completed", children) == set()
    assert [await plane.state(child) for child in children] == ["completed", "dead", "dead"]


async def test_a_batch_whose_children_are_elsewhere_is_not_replayed(plane: Plane) -> None:
    """Goal: I10: a child is in one live parent. Method: the children of a dead batch are released and carried by
    another; the first is refused, and so is its revival; nothing moved."""
    parent, children = await batch(plane)
    await mined(plane, parent, "dead")
    async with plane.database.transaction() as tx:
        assert await control_of(plane).release_children(tx, parent, DEED) == set(children)
    assert await states(plane, children) == {"pending_batch"}
    with pytest.raises(ChildrenElsewhere, match=f"{CHILDREN} of its children"):
        await control_of(plane).replay(parent, DEED)
    async with plane.database.transaction() as tx:
        other = await plane.coordination.enqueue(new_job("other"), tx=tx)
        await plane.coordination.batch_if_pending(tx, other.job_id, children)
    with pytest.raises(ChildrenElsewhere):
        await control_of(plane).replay(parent, DEED)
    assert await revive(plane, parent) == frozenset()
    assert (await plane.state(parent), await states(plane, children)) == ("dead", {"batched"})
    assert await settle(plane, parent, "completed", children) == set()


async def test_an_archived_child_keeps_its_batch_from_being_replayed(plane: Plane) -> None:
    """Goal: all or none (INT-7). Method: retention took one child of a dead batch."""
    parent, children = await batch(plane)
    await cancelled(plane, parent)
    async with plane.database.transaction() as tx:
        await tx.execute("SET LOCAL tayho.operation = 'archive'")
        await tx.execute(
            "UPDATE coordination.jobs SET request = '{}', archived_at = now() WHERE job_id = $1", children[0]
        )
    with pytest.raises(ChildrenElsewhere, match="1 of its children"):
        await control_of(plane).replay(parent, DEED)


async def test_a_child_is_not_replayed_alone(plane: Plane) -> None:
    """Goal: a child has no delivery of its own. Method: replay one by its id, and all that is dead at once: the batch
    alone is queued, and brings them."""
    parent, children = await batch(plane)
    await cancelled(plane, parent)
    with pytest.raises(ReplayedWithBatch, match=str(parent)):
        await control_of(plane).replay(children[0], DEED)
    bulk = BulkControl(plane.database, CHAIN_ID, ENVIRONMENT)
    assert (await bulk.replay_many(JobFilter(), DEED)).jobs == 1
    assert (await plane.state(parent), await states(plane, children)) == ("queued", {"batched"})


async def test_children_of_a_batch_that_may_take_effect_are_not_let_go(plane: Plane) -> None:
    """Goal: nothing is carried twice. Method: release those of a queued batch, of a completed one, of no batch, and of
    a dead one twice."""
    parent, children = await batch(plane)
    control = control_of(plane)
    single = await plane.enqueue("single")
    for job_id, refusal in ((parent, BatchMayTakeEffect), (single, NotABatch)):
        with pytest.raises(refusal):
            async with plane.database.transaction() as tx:
                await control.release_children(tx, job_id, DEED)
    await mined(plane, parent, "completed")
    with pytest.raises(BatchMayTakeEffect):
        async with plane.database.transaction() as tx:
            await control.release_children(tx, parent, DEED)
    second, _ = await batch(plane, "second")
    await cancelled(plane, second)
    async with plane.database.transaction() as tx:
        await control.release_children(tx, second, DEED)
    with pytest.raises(NotABatch):
        async with plane.database.transaction() as tx:
            await control.release_children(tx, second, DEED)
    assert await states(plane, children) == {"batched"}


@pytest.mark.parametrize("state", ["completed", "dead"])
async def test_what_the_chain_took_back_is_carried_again(plane: Plane, state: str) -> None:
    """Goal: TX-6: children return with their parent and end once more. Method: a batch that the chain ended, with its
    children ended each by its own result or with it, is revived; then it ends again."""
    parent, children = await batch(plane)
    attempt = await begun(plane, parent)
    async with plane.database.transaction() as tx:
        await plane.coordination.hold_for_lineage_if_current(tx, [attempt])
    await settle(plane, parent, state, children if state == "completed" else [])
    assert await revive(plane, parent) == {parent}
    assert (await plane.state(parent), await states(plane, children)) == ("retry", {"batched"})
    assert await settle(plane, parent, "completed", children) == set(children)


async def test_a_child_is_born_under_no_parent_and_batched_under_one(plane: Plane) -> None:
    """Goal: I10 is the database's. Method: write what breaks it, past the code."""
    _, children = await batch(plane)
    for change in ("batch_job_id = NULL", "state = 'pending_batch'"):
        with pytest.raises(Refused):
            async with plane.database.transaction() as tx:
                await tx.execute(f"UPDATE coordination.jobs SET {change} WHERE job_id = $1", children[0])
