"""Why is this job not running: the decision, over tables (DLV-14)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from attrs import evolve

from storage.records import RecordState
from tayho.coordination.explaining.rules import SILENT_SECONDS, explain, wants_look
from tayho.coordination.explaining.types import Cause, JobFacts, QueueLook
from tayho.kernel.ids import new_id
from tayho.kernel.transitions import JOB

NOW = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)
MINUTE = timedelta(minutes=1)

# A job that is due, published, and waits behind others while a worker lives.
WAITING = JobFacts(
    job_id=new_id(),
    role="automation",
    kind="orders.execute",
    state="queued",
    generation=1,
    attempt_number=0,
    attempts_spent=0,
    has_live_lineage=False,
    cancel_requested_at=None,
    run_at=NOW - MINUTE,
    created_at=NOW - MINUTE,
    ended_at=None,
    archived_at=None,
    last_error=None,
    limit_key=None,
    now=NOW,
    outbox_due_at=NOW + MINUTE,
    published_at=NOW - MINUTE,
    attempt_started_at=None,
    worker_instance_id=None,
    heartbeat_age_seconds=None,
    worker_has_stopped=False,
    role_pause_reason=None,
    role_pause_actor=None,
    kind_pause_reason=None,
    kind_pause_actor=None,
    concurrent_max=32,
    rate_max=None,
    rate_seconds=None,
    in_flight=0,
    start_free_at=None,
    workers_live=2,
    workers_draining=0,
)
UNPUBLISHED = evolve(WAITING, published_at=None)
PAUSED = {"role_pause_reason": "the node lies", "role_pause_actor": "ada"}
KIND_PAUSED = {"kind_pause_reason": "a bug", "kind_pause_actor": "bob"}
RUNNING = evolve(
    WAITING,
    state="processing",
    attempt_number=2,
    attempt_started_at=NOW - MINUTE,
    worker_instance_id="automation-1",
    heartbeat_age_seconds=1.0,
)
SILENT = evolve(RUNNING, heartbeat_age_seconds=SILENT_SECONDS + 1)
LIMITED = evolve(UNPUBLISHED, limit_key="tenant-7")
ENDED = evolve(WAITING, outbox_due_at=None, published_at=None, ended_at=NOW)
FAILED = {"type": "Boom", "message": "boom"}


def look(state: RecordState | None) -> QueueLook:
    return QueueLook(state, "Redis is not there" if state is None else None)


IN_QUEUE = look(RecordState.WAITING)


@pytest.mark.parametrize(
    ("facts", "found", "causes", "action"),
    [
        (evolve(ENDED, state="completed"), None, [Cause.ENDED], "nothing"),
        (evolve(ENDED, state="not_actionable"), None, [Cause.ENDED], "nothing"),
        (evolve(ENDED, state="dead", last_error=FAILED), None, [Cause.ENDED], "tayho jobs replay"),
        (evolve(ENDED, state="dead", archived_at=NOW), None, [Cause.ENDED], "archived"),
        (evolve(ENDED, state="quarantined", last_error=FAILED), None, [Cause.ENDED], "another key"),
        (evolve(WAITING, state="confirming", has_live_lineage=True), None, [Cause.CONFIRMING], "tayho jobs inspect"),
        (evolve(UNPUBLISHED, state="pending_batch"), None, [Cause.BATCH], "batch"),
        (evolve(UNPUBLISHED, state="batched"), None, [Cause.BATCH], "batch"),
        (RUNNING, look(RecordState.ACTIVE), [Cause.RUNNING], "wait, or cancel"),
        (RUNNING, look(RecordState.MISSING), [Cause.RUNNING, Cause.RECORD_GONE], "wait, or cancel"),
        (SILENT, look(RecordState.ACTIVE), [Cause.RUNNING_SILENT_WORKER], "takes it over"),
        (
            evolve(SILENT, workers_live=0),
            look(RecordState.ACTIVE),
            [Cause.RUNNING_SILENT_WORKER, Cause.NO_WORKER],
            "takes it over",
        ),
        (
            evolve(RUNNING, worker_has_stopped=True),
            look(RecordState.ACTIVE),
            [Cause.RUNNING_SILENT_WORKER],
            "takes it over",
        ),
        (
            evolve(RUNNING, cancel_requested_at=NOW),
            look(RecordState.ACTIVE),
            [Cause.CANCEL_REQUESTED, Cause.RUNNING],
            "heartbeat",
        ),
        (evolve(UNPUBLISHED, run_at=NOW + MINUTE), None, [Cause.NOT_DUE], "wait"),
        (evolve(UNPUBLISHED, **PAUSED), None, [Cause.PAUSED_ROLE, Cause.UNPUBLISHED], "queues resume automation`"),
        (
            evolve(UNPUBLISHED, **KIND_PAUSED),
            None,
            [Cause.PAUSED_KIND, Cause.UNPUBLISHED],
            "queues resume automation --kind orders.execute",
        ),
        (
            evolve(UNPUBLISHED, **PAUSED, **KIND_PAUSED),
            None,
            [Cause.PAUSED_ROLE, Cause.PAUSED_KIND, Cause.UNPUBLISHED],
            "queues resume",
        ),
        # No pause holds a job whose nonce is taken.
        (evolve(WAITING, state="retry", has_live_lineage=True, **PAUSED), IN_QUEUE, [Cause.WAITING_IN_QUEUE], "wait"),
        (evolve(LIMITED, in_flight=32), None, [Cause.OVER_LIMIT_CONCURRENT], "limits set"),
        (evolve(LIMITED, in_flight=31), None, [Cause.UNPUBLISHED], "readyz"),
        (
            evolve(LIMITED, rate_max=10, rate_seconds=60, start_free_at=NOW + MINUTE),
            None,
            [Cause.OVER_LIMIT_RATE],
            "limits set",
        ),
        (evolve(LIMITED, rate_max=10, rate_seconds=60, start_free_at=NOW), None, [Cause.UNPUBLISHED], "readyz"),
        (
            evolve(LIMITED, in_flight=40, rate_max=10, rate_seconds=60, start_free_at=NOW + MINUTE),
            None,
            [Cause.OVER_LIMIT_CONCURRENT, Cause.OVER_LIMIT_RATE],
            "limits set",
        ),
        # What is in the queue already is over no limit.
        (evolve(WAITING, limit_key="tenant-7", in_flight=40), IN_QUEUE, [Cause.WAITING_IN_QUEUE], "wait"),
        (UNPUBLISHED, None, [Cause.UNPUBLISHED], "readyz"),
        (WAITING, IN_QUEUE, [Cause.WAITING_IN_QUEUE], "more processes"),
        (evolve(WAITING, workers_live=0), IN_QUEUE, [Cause.NO_WORKER, Cause.WAITING_IN_QUEUE], "tayho run automation"),
        (
            evolve(WAITING, workers_draining=2),
            IN_QUEUE,
            [Cause.WORKERS_DRAINING, Cause.WAITING_IN_QUEUE],
            "tayho run automation",
        ),
        (evolve(WAITING, workers_draining=1), IN_QUEUE, [Cause.WAITING_IN_QUEUE], "more processes"),
        (
            evolve(WAITING, **PAUSED, workers_live=0),
            IN_QUEUE,
            [Cause.PAUSED_ROLE, Cause.WAITING_IN_QUEUE, Cause.NO_WORKER],
            "resume",
        ),
        (
            evolve(WAITING, state="retry", attempt_number=1, last_error=FAILED),
            look(RecordState.DELAYED),
            [Cause.DELAYED_IN_QUEUE],
            "by itself",
        ),
        (WAITING, look(RecordState.ACTIVE), [Cause.ACTIVE_IN_QUEUE_UNBEGUN], "handed out again"),
        (WAITING, look(RecordState.MISSING), [Cause.RECORD_GONE], "nothing"),
        (WAITING, look(RecordState.COMPLETED), [Cause.RECORD_ENDED], "nothing"),
        (WAITING, look(RecordState.FAILED), [Cause.RECORD_ENDED], "nothing"),
        (WAITING, look(None), [Cause.REDIS_UNREACHABLE], "REDIS_URL"),
    ],
)
def test_each_cause_is_told_in_its_order(
    facts: JobFacts, found: QueueLook | None, causes: list[Cause], action: str
) -> None:
    """Goal: what holds a job is named, first the thing to act on. Method: one job at a time that differs from a waiting
    one in what the case is about."""
    told = explain(facts, found)
    assert [reason.code for reason in told.causes] == causes
    assert told.summary == told.causes[0].sentence
    assert action in told.next_action
    assert told.record_state == (None if found is None or found.state is None else found.state.value)


def test_no_cause_is_without_a_case() -> None:
    """Goal: a new cause comes with its case. Method: the table above, read."""
    marks = test_each_cause_is_told_in_its_order.pytestmark  # type: ignore[attr-defined]
    told = {cause for case in marks[0].args[1] for cause in case[2]}
    assert told == set(Cause)


@pytest.mark.parametrize("state", sorted(JOB.states))
def test_every_state_is_explained_in_one_sentence(state: str) -> None:
    """Goal: no job is without an answer. Method: every state of the table, with nothing else known."""
    facts = evolve(WAITING, state=state, has_live_lineage=state == "confirming")
    told = explain(facts, IN_QUEUE if wants_look(facts) else None)
    assert told.summary.endswith(".")
    assert told.next_action
    assert (told.causes[0].code is Cause.ENDED) == (state in JOB.terminal)


def test_times_are_told_where_something_happens_by_itself() -> None:
    """Goal: an operator knows how long to wait. Method: a job that is not due, one whose delivery is lost, one over its
    rate, one that needs a person."""
    later = NOW + timedelta(seconds=30, microseconds=1)
    not_due = explain(evolve(UNPUBLISHED, run_at=later), None)
    assert not_due.next_at == later
    assert "12:00:31Z" in not_due.summary, "never a moment too early"
    assert explain(WAITING, look(RecordState.MISSING)).next_at == WAITING.outbox_due_at
    assert explain(evolve(LIMITED, rate_max=1, rate_seconds=9, start_free_at=later), None).next_at == later
    assert explain(evolve(UNPUBLISHED, **PAUSED), None).next_at is None


def test_what_is_told_names_who_and_why() -> None:
    """Goal: the answer saves the next question. Method: a paused job, a failed one, one over a limit, one without
    Redis."""
    assert "ada: the node lies" in explain(evolve(UNPUBLISHED, **PAUSED), None).summary
    assert "Boom: boom" in explain(evolve(ENDED, state="dead", last_error=FAILED), None).summary
    assert "'tenant-7' has 32 jobs" in explain(evolve(LIMITED, in_flight=32), None).summary
    assert "Redis is not there" in explain(WAITING, look(None)).summary
    assert "automation-1" in explain(RUNNING, look(RecordState.ACTIVE)).summary
    delayed = explain(evolve(WAITING, attempt_number=1, last_error=FAILED), look(RecordState.DELAYED))
    assert "Boom: boom" in delayed.summary
