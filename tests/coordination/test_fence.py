"""A stale attempt changes nothing (DLV-6, I6)."""

from __future__ import annotations

from uuid import UUID

import pytest
from attrs import evolve

from tayho.coordination.attempts import Begun, End, Ends, EndVerdict
from tayho.kernel.ids import new_id
from tayho.kernel.jobs import Attempt, StaleAttempt
from tests.coordination.conftest import SETTINGS, Plane


async def _begun(plane: Plane, job_id: UUID, worker_id: UUID) -> Attempt:
    begun = await plane.begin(job_id, worker_id)
    assert begun.verdict == "begun"
    assert begun.attempt is not None
    return begun.attempt


async def _end(plane: Plane, end: End) -> str | Exception:
    (answer,) = await Ends(plane.database, SETTINGS.attempts_max).end_all_if_current([end])
    return answer if isinstance(answer, Exception) else answer.state


async def test_the_current_attempt_completes_its_job(plane: Plane) -> None:
    """Goal: the ordinary way. Method: begin and complete; job, attempt and outbox tell the same."""
    job_id = await plane.enqueue()
    attempt = await _begun(plane, job_id, await plane.worker())
    assert await _end(plane, End(attempt, "completed", {"result": 7})) == "completed"
    record = await plane.coordination.inspect(job_id)
    assert record is not None
    assert (record.state, record.result, record.outbox_due_at) == ("completed", {"result": 7}, None)
    assert [one.state for one in record.attempts] == ["completed"]


@pytest.mark.parametrize("field", ["token", "worker_id", "attempt_number"])
async def test_each_part_of_the_fence_alone_refuses(plane: Plane, field: str) -> None:
    """Goal: token, worker and attempt number must all be current. Method: an end that is right but for one of them."""
    job_id = await plane.enqueue()
    attempt = await _begun(plane, job_id, await plane.worker())
    other = {"token": new_id().hex, "worker_id": await plane.worker(), "attempt_number": 2}[field]
    stale = evolve(attempt, **{field: other})
    for verdict in ("completed", "not_actionable", "failed", "returned"):
        assert isinstance(await _end(plane, End(stale, verdict)), StaleAttempt)
    assert await plane.state(job_id) == "processing"
    assert await _end(plane, End(attempt, "completed")) == "completed"


async def test_a_later_delivery_takes_the_job_over_and_fences_the_first(plane: Plane) -> None:
    """Goal: a frozen worker that wakes up is refused, and the record says so. Method: a second delivery begins while
    the
    first attempt runs; the first one's end and its fences are refused, the second's holds."""
    job_id = await plane.enqueue()
    first = await _begun(plane, job_id, await plane.worker())
    second = await _begun(plane, job_id, await plane.worker())
    assert second.attempt_number == first.attempt_number + 1
    assert isinstance(await _end(plane, End(first, "completed", {"result": "late"})), StaleAttempt)
    async with plane.database.transaction() as tx:
        assert await plane.coordination.hold_for_lineage_if_current(tx, [first]) == frozenset()
        assert await plane.coordination.lock_if_current(tx, [first]) == frozenset()
        assert await plane.coordination.confirm_if_current(tx, [first]) == frozenset()
        assert not await plane.coordination.release_lineage_if_current(tx, first, {})
    assert await _end(plane, End(second, "completed", {"result": "right"})) == "completed"
    record = await plane.coordination.inspect(job_id)
    assert record is not None
    assert record.result == {"result": "right"}
    assert [one.state for one in record.attempts] == ["lost", "completed"]


async def test_the_same_delivery_begun_twice_is_the_same_attempt(plane: Plane) -> None:
    """Goal: a lost answer to `begin` starts nothing new. Method: the same token begins twice."""
    job_id = await plane.enqueue()
    worker_id = await plane.worker()
    first = await plane.begin(job_id, worker_id, token="t" * 32)
    again = await plane.begin(job_id, worker_id, token="t" * 32)
    assert (first.verdict, again.verdict) == ("begun", "held")
    assert first.attempt == again.attempt


async def test_a_delivery_of_another_generation_or_of_an_ended_job_begins_nothing(plane: Plane) -> None:
    """Goal: only the current generation runs. Method: begin with a later and an earlier generation, and after the
    end."""
    job_id = await plane.enqueue()
    worker_id = await plane.worker()
    assert (await plane.begin(job_id, worker_id, generation=2)).verdict == "stale_generation"
    attempt = await _begun(plane, job_id, worker_id)
    await _end(plane, End(attempt, "completed"))
    assert (await plane.begin(job_id, worker_id)).verdict == "not_deliverable"
    assert (await plane.begin(new_id(), worker_id)).verdict == "unknown_job"


async def test_an_early_or_unknown_delivery_is_put_back_unharmed(plane: Plane) -> None:
    """Goal: the database's clock decides what is early, and an unknown kind is left to a worker that knows it.
    Method: a
    job that was returned for an hour; a job of a kind that this worker has not."""
    job_id = await plane.enqueue()
    worker_id = await plane.worker()
    attempt = await _begun(plane, job_id, worker_id)
    assert await _end(plane, End(attempt, "returned", delay_seconds=3600)) == "retry"
    early = await plane.begin(job_id, worker_id)
    assert early.verdict == "early"
    assert 3500 < early.wait_seconds <= 3600
    async with plane.database.connection() as connection:
        await connection.execute("UPDATE coordination.jobs SET run_at = now()")
        await connection.execute("ALTER TABLE coordination.jobs DISABLE TRIGGER jobs_identity_immutable")
        await connection.execute("UPDATE coordination.jobs SET kind = 'from another release'")
    assert (await plane.begin(job_id, worker_id)).verdict == "unknown_kind"
    assert await plane.state(job_id) == "retry"


async def test_a_soft_stop_spends_no_attempt_and_the_number_still_grows(plane: Plane) -> None:
    """Goal: the budget and the fence are two columns. Method: return an attempt, begin again."""
    job_id = await plane.enqueue()
    worker_id = await plane.worker()
    first = await _begun(plane, job_id, worker_id)
    await _end(plane, End(first, "returned"))
    second = await _begun(plane, job_id, worker_id)
    assert second.attempt_number == 2
    record = await plane.coordination.inspect(job_id)
    assert record is not None
    assert record.attempts_spent == 1


async def test_failures_spend_the_budget_and_the_last_one_is_kept(plane: Plane) -> None:
    """Goal: DLV-8 for a job without a journal row. Method: fail as often as the budget allows."""
    job_id = await plane.enqueue()
    worker_id = await plane.worker()
    for number in range(1, SETTINGS.attempts_max + 1):
        attempt = await _begun(plane, job_id, worker_id)
        state = await _end(plane, End(attempt, "failed", {"type": "Boom", "message": f"failure {number}"}))
        assert state == ("retry" if number < SETTINGS.attempts_max else "dead")
    record = await plane.coordination.inspect(job_id)
    assert record is not None
    assert record.last_error == {"type": "Boom", "message": "failure 3"}
    assert record.outbox_due_at is None


async def test_a_job_whose_workers_die_without_a_word_ends_dead(plane: Plane) -> None:
    """Goal: PostgreSQL owns the poison policy. Method: begin over and over, never end; the budget runs out in
    `begin`."""
    job_id = await plane.enqueue()
    worker_id = await plane.worker()
    verdicts = [(await plane.begin(job_id, worker_id)).verdict for _ in range(SETTINGS.attempts_max + 1)]
    assert verdicts == ["begun"] * SETTINGS.attempts_max + ["exhausted"]
    assert await plane.state(job_id) == "dead"


async def test_a_job_that_owns_a_nonce_is_never_discarded(plane: Plane) -> None:
    """Goal: DLV-8. Method: a job with a live lineage fails and is taken over far beyond the budget."""
    job_id = await plane.enqueue()
    worker_id = await plane.worker()
    attempt = await _begun(plane, job_id, worker_id)
    async with plane.database.transaction() as tx:
        assert await plane.coordination.hold_for_lineage_if_current(tx, [attempt]) == {job_id}
    for _ in range(3 * SETTINGS.attempts_max):
        assert await _end(plane, End(attempt, "failed", {"type": "Boom"})) == "retry"
        attempt = await _begun(plane, job_id, worker_id)
    begun: Begun = await plane.begin(job_id, worker_id)
    assert begun.verdict == "begun"
    assert begun.job is not None
    assert begun.job.has_live_lineage


@pytest.mark.parametrize(("verdict", "state"), [("completed", "completed"), ("failed", "retry"), ("returned", "retry")])
async def test_an_end_whose_answer_was_lost_is_answered_again(plane: Plane, verdict: EndVerdict, state: str) -> None:
    """Goal: to ask again is right, and changes nothing. Method: the same end twice; then another of the same attempt,
    and the same of an attempt with another token, which are stale."""
    attempt = await _begun(plane, await plane.enqueue(), await plane.worker())
    assert await _end(plane, End(attempt, verdict)) == state
    before = await plane.coordination.inspect(attempt.job_id)
    assert await _end(plane, End(attempt, verdict)) == state
    assert await plane.coordination.inspect(attempt.job_id) == before
    assert isinstance(await _end(plane, End(attempt, "quarantined")), StaleAttempt)
    assert isinstance(await _end(plane, End(evolve(attempt, token=new_id().hex), verdict)), StaleAttempt)
