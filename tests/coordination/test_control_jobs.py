"""Replay and cancel: what an operator may do to a job, and what is kept of it (DLV-9, DLV-15)."""

from __future__ import annotations

from uuid import UUID

import pytest
import trio

from storage.records import RecordState, delivery_id
from tayho.coordination.attempts import End, Ends
from tayho.coordination.control.errors import (
    AlreadyEnded,
    BatchedNotCancellable,
    CancelRefused,
    ControlRefused,
    JobArchived,
    JobUnknown,
    NotDead,
)
from tayho.coordination.control.jobs import JobControl
from tayho.coordination.control.rules import Standing, cancel_refusal, replay_refusal
from tayho.coordination.control.types import Deed
from tayho.kernel.ids import new_id
from tayho.kernel.jobs import Attempt, Job, Outcome, StaleAttempt
from tayho.kernel.transitions import JOB
from tests.coordination.conftest import CHAIN_ID, ENVIRONMENT, SETTINGS, Plane
from tests.coordination.test_worker import at_work
from tests.waiting import until

DEED = Deed("ada", "the incident of tonight")


def control_of(plane: Plane) -> JobControl:
    return JobControl(plane.database, CHAIN_ID, ENVIRONMENT)


async def died(plane: Plane, key: str = "key") -> UUID:
    """A job whose attempts all failed."""
    job_id, worker_id = await plane.enqueue(key), await plane.worker()
    for _ in range(SETTINGS.attempts_max):
        begun = await plane.begin(job_id, worker_id)
        assert begun.attempt is not None
        end = End(begun.attempt, "failed", {"type": "Boom", "message": "boom"})
        await Ends(plane.database, SETTINGS.attempts_max).end_all_if_current([end])
    assert await plane.state(job_id) == "dead"
    return job_id


async def actions(plane: Plane) -> list[tuple[str, str, list[UUID], dict]]:
    """What is written down of operators' deeds, in order."""
    async with plane.database.connection() as connection:
        rows = await connection.fetch(
            "SELECT action, actor, job_ids, detail FROM coordination.operator_actions ORDER BY action_id"
        )
    return [(row["action"], row["actor"], list(row["job_ids"]), row["detail"]) for row in rows]


async def test_a_dead_job_is_replayed_whole_with_its_history(plane: Plane) -> None:
    """Goal: DLV-9. Method: a job dies of three attempts; it is replayed; key, request and attempts are as they were,
    the budget is whole, the generation is the next one, the promise is there, the deed is written down; it runs."""
    job_id = await died(plane)
    before = await plane.coordination.inspect(job_id)
    await control_of(plane).replay(job_id, DEED)
    after = await plane.coordination.inspect(job_id)
    assert before is not None
    assert after is not None
    assert (after.state, after.attempts_spent, after.generation) == ("queued", 0, before.generation + 1)
    assert (after.idempotency_key, after.request, after.attempts) == (
        before.idempotency_key,
        before.request,
        before.attempts,
    )
    assert after.attempt_number == before.attempt_number, "the fence only grows"
    assert after.outbox_due_at is not None
    assert after.outbox_published_at is None
    assert await actions(plane) == [("replay", "ada", [job_id], {"reason": DEED.reason})]
    await plane.publisher().publish_due()
    (delivery,) = await plane.queue.fetch(1)
    assert delivery.delivery_id == delivery_id(job_id, after.generation)
    begun = await plane.begin(job_id, await plane.worker(), generation=after.generation)
    assert (begun.verdict, begun.attempt and begun.attempt.attempt_number) == ("begun", SETTINGS.attempts_max + 1)


async def test_only_a_dead_job_is_replayed(plane: Plane) -> None:
    """Goal: one class a refusal, and nothing is changed by it. Method: unknown, queued, completed and archived jobs."""
    control = control_of(plane)
    queued, dead = await plane.enqueue("queued"), await died(plane, "dead")
    with pytest.raises(JobUnknown, match="CHAIN_ID"):
        await control.replay(new_id(), DEED)
    with pytest.raises(NotDead, match="is queued"):
        await control.replay(queued, DEED)
    with pytest.raises(JobUnknown):
        await JobControl(plane.database, CHAIN_ID, "another").replay(dead, DEED)
    async with plane.database.transaction() as tx:
        await tx.execute("SELECT set_config('tayho.operation', 'archive', true)")
        await tx.execute(
            "UPDATE coordination.jobs SET archived_at = now(), request = '{}', result = NULL WHERE job_id = $1", dead
        )
    with pytest.raises(JobArchived, match="another key"):
        await control.replay(dead, DEED)
    assert await plane.state(dead) == "dead"
    assert await actions(plane) == []


async def test_two_replays_at_once_queue_the_job_once(plane: Plane) -> None:
    """Goal: no second generation, no second promise. Method: ten replays of one job at the same time."""
    job_id = await died(plane)
    answers: list[str] = []

    async def replay() -> None:
        try:
            await control_of(plane).replay(job_id, DEED)
        except NotDead:
            answers.append("refused")
        else:
            answers.append("replayed")

    async with trio.open_nursery() as racers:
        for _ in range(10):
            racers.start_soon(replay)
    assert sorted(answers) == ["refused"] * 9 + ["replayed"]
    record = await plane.coordination.inspect(job_id)
    assert record is not None
    assert record.generation == 2
    assert len(await actions(plane)) == 1


async def test_a_waiting_job_is_cancelled_at_once(plane: Plane) -> None:
    """Goal: DLV-15. Method: cancel a queued job and one that waits to be tried again; both are dead by it, their
    promises are gone, a delivery that is under way already does not begin; the second request gets the same answer."""
    queued, retried, worker_id = await plane.enqueue("queued"), await plane.enqueue("retried"), await plane.worker()
    begun = await plane.begin(retried, worker_id)
    assert begun.attempt is not None
    await Ends(plane.database, 3).end_all_if_current([End(begun.attempt, "failed", {"type": "Boom", "message": ""})])
    for job_id in (queued, retried):
        for _ in range(2):
            assert (await control_of(plane).cancel(job_id, DEED)).has_ended
        record = await plane.coordination.inspect(job_id)
        assert record is not None
        assert (record.state, record.outbox_due_at) == ("dead", None)
        assert record.last_error == {"type": "Cancelled", "message": "cancelled by ada: the incident of tonight"}
        assert (await plane.begin(job_id, worker_id)).verdict == "not_deliverable"
    assert [(action, job_ids) for action, _, job_ids, _ in await actions(plane)] == [
        ("cancel", [queued]),
        ("cancel", [retried]),
    ]


async def test_a_cancelled_job_can_be_replayed_and_runs(plane: Plane) -> None:
    """Goal: a cancellation is no end for ever. Method: cancel, replay, begin: no trace of the request holds it."""
    job_id = await plane.enqueue()
    await control_of(plane).cancel(job_id, DEED)
    await control_of(plane).replay(job_id, DEED)
    assert (await plane.begin(job_id, await plane.worker(), generation=2)).verdict == "begun"


async def test_a_running_handler_is_stopped_and_the_request_answered(plane: Plane) -> None:
    """Goal: a cancellation is acknowledged, within a notification and not a heartbeat. Method: a handler that would
    wait for ever; cancel, twice; it is cancelled, the job ends dead, its attempt `cancelled`, its record is done."""
    entered, stopped = trio.Event(), trio.Event()

    async def handle(job: Job, attempt: Attempt) -> Outcome:
        entered.set()
        try:
            await trio.sleep_forever()
        finally:
            stopped.set()
        raise AssertionError("unreachable")

    job_id = await plane.enqueue()
    async with at_work(plane, handle):
        with trio.fail_after(10):
            await entered.wait()
        control = control_of(plane)
        assert not (await control.cancel(job_id, DEED)).has_ended
        with trio.fail_after(3):
            await stopped.wait()
        assert await control.await_end([job_id], seconds=5) == {job_id: "dead"}
        assert (await control.cancel(job_id, DEED)).has_ended

        async def acknowledged() -> bool:
            return (await plane.queue.states([delivery_id(job_id, 1)])) == [RecordState.COMPLETED]

        await until(acknowledged, what="the record to be done")
    record = await plane.coordination.inspect(job_id)
    assert record is not None
    assert [attempt.state for attempt in record.attempts] == ["cancelled"]
    assert isinstance(record.last_error, dict)
    assert record.last_error["type"] == "Cancelled"


async def test_who_completed_first_has_completed(plane: Plane) -> None:
    """Goal: a request does not undo work. Method: the request comes while the attempt runs, and its worker ends it with
    a result before it hears; and a late result after the job was ended is refused."""
    control, worker_id = control_of(plane), await plane.worker()
    first, late = await plane.enqueue("first"), await plane.enqueue("late")
    attempts = [(await plane.begin(job_id, worker_id)).attempt for job_id in (first, late)]
    for job_id in (first, late):
        assert not (await control.cancel(job_id, DEED)).has_ended
    ends = Ends(plane.database, SETTINGS.attempts_max)
    assert attempts[0] is not None
    assert attempts[1] is not None
    await ends.end_all_if_current([End(attempts[0], "completed", {"result": 1})])
    assert await plane.state(first) == "completed"
    with pytest.raises(AlreadyEnded, match="completed"):
        await control.cancel(first, DEED)
    await ends.end_all_if_current([End(attempts[1], "returned")])
    assert await plane.state(late) == "dead"
    (refused,) = await ends.end_all_if_current([End(attempts[1], "completed", {"result": 1})])
    assert isinstance(refused, StaleAttempt)
    assert await plane.state(late) == "dead"


async def test_a_cancelled_job_whose_worker_vanished_ends_at_its_next_delivery(plane: Plane) -> None:
    """Goal: the request survives its worker. Method: the attempt never ends; the delivery is handed out again."""
    job_id = await plane.enqueue()
    await plane.begin(job_id, await plane.worker())
    await control_of(plane).cancel(job_id, DEED)
    assert (await plane.begin(job_id, await plane.worker())).verdict == "cancelled"
    assert await plane.state(job_id) == "dead"


async def test_a_job_that_owns_a_nonce_is_not_cancelled_and_a_cancelled_one_gets_none(plane: Plane) -> None:
    """Goal: DLV-8, from both sides of the race. Method: hold for a lineage, then cancel; cancel, then hold."""
    control, worker_id = control_of(plane), await plane.worker()
    owner, cancelled = await plane.enqueue("owner"), await plane.enqueue("cancelled")
    attempts = [(await plane.begin(job_id, worker_id)).attempt for job_id in (owner, cancelled)]
    assert attempts[0] is not None
    assert attempts[1] is not None
    async with plane.database.transaction() as tx:
        assert await plane.coordination.hold_for_lineage_if_current(tx, [attempts[0]]) == {owner}
    with pytest.raises(CancelRefused, match="tx cancel"):
        await control.cancel(owner, DEED)
    await control.cancel(cancelled, DEED)
    async with plane.database.transaction() as tx:
        assert await plane.coordination.hold_for_lineage_if_current(tx, [attempts[1]]) == frozenset()
    assert await plane.state(owner) == "processing"


@pytest.mark.parametrize("state", sorted(JOB.states))
def test_each_state_has_its_answer(state: str) -> None:
    """Goal: no state is forgotten. Method: every state of the table, with and without a nonce, is either changed or
    refused by the class that says why."""
    refusals: dict[str, type[ControlRefused]] = {
        **dict.fromkeys(("completed", "not_actionable", "quarantined", "dead"), AlreadyEnded),
        **dict.fromkeys(("pending_batch", "batched"), BatchedNotCancellable),
        "confirming": CancelRefused,
    }
    job_id = new_id()
    plain = Standing(job_id, state, has_live_lineage=False, is_archived=False, error_type="Boom")
    refused = cancel_refusal(plain)
    assert type(refused) is refusals.get(state, type(None))
    if state in {"processing", "retry", "confirming"}:
        owner = Standing(job_id, state, has_live_lineage=True, is_archived=False, error_type=None)
        assert isinstance(cancel_refusal(owner), CancelRefused)
    replayed = replay_refusal(plain)
    assert (replayed is None) == (state == "dead")
    for refusal in filter(None, (refused, replayed)):
        assert str(job_id) in str(refusal)
        assert state in str(refusal)


@pytest.mark.parametrize(
    ("actor", "reason"), [("", "x"), ("a" * 129, "x"), ("a", "x" * 501), ("a\x00", "x"), ("a", "\ud800")]
)
def test_a_deed_is_named_in_words_that_can_be_kept(actor: str, reason: str) -> None:
    """Goal: no deed fails in the database for its words. Method: empty, too long, NUL, half a surrogate pair."""
    with pytest.raises(ValueError, match=r"actor|reason"):
        Deed(actor, reason)


async def test_the_record_of_deeds_cannot_be_rewritten(plane: Plane) -> None:
    """Goal: who did what stands. Method: update, delete and truncate it."""
    await control_of(plane).cancel(await plane.enqueue(), DEED)
    for statement in (
        "UPDATE coordination.operator_actions SET actor = 'nobody'",
        "DELETE FROM coordination.operator_actions",
        "TRUNCATE coordination.operator_actions",
    ):
        with pytest.raises(Exception, match=r"immutable|TY003"):
            async with plane.database.connection() as connection:
                await connection.execute(statement)


async def test_completed_work_needs_no_wait_for_an_end(plane: Plane) -> None:
    """Goal: `await_end` ends with the jobs, not with its deadline, and never without one. Method: an ended job; a job
    that stays."""
    ended, stays = await plane.enqueue("ended"), await plane.enqueue("stays")
    control = control_of(plane)
    await control.cancel(ended, DEED)
    with trio.fail_after(2):
        assert await control.await_end([ended], seconds=60) == {ended: "dead"}
        assert await control.await_end([], seconds=60) == {}
        assert await control.await_end([ended, stays], seconds=0.2) == {ended: "dead", stays: "queued"}
