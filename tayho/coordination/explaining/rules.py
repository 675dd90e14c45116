"""Why is this job not running? A pure decision over what PostgreSQL and Redis said (DLV-14)."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from attrs import frozen

from storage.records import RecordState
from tayho.coordination.explaining.types import Cause, Explanation, JobFacts, QueueLook, Reason
from tayho.kernel.transitions import JOB

# A worker that has not beaten for so long is taken for dead; its heartbeat is a fraction of it.
SILENT_SECONDS = 30.0


@frozen
class _Found:
    """One cause, what to do about it, and when it passes by itself."""

    code: Cause
    sentence: str
    next_action: str
    next_at: datetime | None = None


def explain(facts: JobFacts, look: QueueLook | None) -> Explanation:
    """Every cause that holds, the one to look at first in front; `look` is None where no record is to be expected."""
    found = list(_causes(facts, look))
    first = found[0]
    return Explanation(
        job_id=facts.job_id,
        state=facts.state,
        summary=first.sentence,
        causes=tuple(Reason(each.code, each.sentence) for each in found),
        next_action=first.next_action,
        next_at=first.next_at,
        facts=facts,
        record_state=None if look is None or look.state is None else look.state.value,
    )


def wants_look(facts: JobFacts) -> bool:
    """Whether the job has, or should have, a record in the queue that is worth asking for."""
    return facts.published_at is not None and facts.state in {"queued", "retry", "processing"}


def _causes(facts: JobFacts, look: QueueLook | None) -> Iterator[_Found]:
    match facts.state:
        case "confirming":
            yield _Found(
                Cause.CONFIRMING,
                "Its transaction is signed and kept: the reconciler sends it and waits for it; no worker is held.",
                "ask `tayho tx explain` with this id what it waits for; `tayho jobs inspect` shows it whole",
            )
        case "pending_batch" | "batched":
            yield _Found(
                Cause.BATCH,
                f"It is {facts.state}: it takes effect with the batch that it belongs to.",
                "look at the job of the batch",
            )
        case "processing":
            yield from _running(facts, look)
        case state if state in JOB.terminal:
            yield _ended(facts)
        case _:
            yield from _waiting(facts, look)


def _ended(facts: JobFacts) -> _Found:
    when = "" if facts.ended_at is None else f" at {_clock(facts.ended_at)}"
    how = _error_of(facts) if facts.state in {"dead", "quarantined"} else ""
    if facts.archived_at is not None:
        action = "nothing: it is archived, and its key stays taken; new work needs another key"
    elif facts.state == "dead":
        action = f"mend the cause, then `tayho jobs replay {facts.job_id}`"
    elif facts.state == "quarantined":
        action = "enqueue a right request under another key: this one can never be carried out"
    else:
        action = "nothing"
    return _Found(Cause.ENDED, f"It has ended{when}: {facts.state}{how}.", action)


def _running(facts: JobFacts, look: QueueLook | None) -> Iterator[_Found]:
    worker = facts.worker_instance_id or "a worker"
    since = "" if facts.attempt_started_at is None else f" since {_clock(facts.attempt_started_at)}"
    silent_seconds = facts.heartbeat_age_seconds or 0
    is_silent = facts.worker_has_stopped or silent_seconds > SILENT_SECONDS
    if facts.cancel_requested_at is not None:
        yield _Found(
            Cause.CANCEL_REQUESTED,
            f"It was to be cancelled at {_clock(facts.cancel_requested_at)}; {worker} has not stopped it yet.",
            "wait for a heartbeat; a worker that died answers when its delivery is handed to another one",
            facts.outbox_due_at if is_silent else None,
        )
    if is_silent:
        gone = "has stopped" if facts.worker_has_stopped else f"has been silent for {silent_seconds:.0f} s"
        yield _Found(
            Cause.RUNNING_SILENT_WORKER,
            f"{worker} holds it{since} and {gone}: it runs again when the lock of its delivery has run out.",
            "nothing: a sibling takes it over; if none is there, start one",
            facts.outbox_due_at,
        )
    else:
        yield _Found(
            Cause.RUNNING, f"{worker} runs attempt {facts.attempt_number}{since}.", "nothing: wait, or cancel it"
        )
    yield from _record_trouble(facts, look)
    if is_silent:
        yield from _without_workers(facts)


def _waiting(facts: JobFacts, look: QueueLook | None) -> Iterator[_Found]:
    found = [
        *_not_due(facts),
        *_paused(facts),
        *(_unpublished(facts) if facts.published_at is None else _published(facts, look)),
    ]
    without_workers = list(_without_workers(facts))
    # Where only a worker is missing, that is the thing to tell first.
    is_held = any(each.code not in _WAITS_FOR_A_WORKER for each in found)
    yield from (*found, *without_workers) if is_held else (*without_workers, *found)


_WAITS_FOR_A_WORKER = {Cause.UNPUBLISHED, Cause.WAITING_IN_QUEUE}


def _not_due(facts: JobFacts) -> Iterator[_Found]:
    if facts.run_at > facts.now:
        why = "it was put off after its last attempt" if facts.attempt_number else "so it was enqueued"
        yield _Found(
            Cause.NOT_DUE, f"It is not due before {_clock(facts.run_at)}: {why}.", "nothing: wait", facts.run_at
        )


def _paused(facts: JobFacts) -> Iterator[_Found]:
    if facts.has_live_lineage:
        return  # No pause holds a job whose nonce is taken.
    if facts.role_pause_reason is not None:
        yield _Found(
            Cause.PAUSED_ROLE,
            f"The role {facts.role} is paused by {facts.role_pause_actor}: {facts.role_pause_reason}",
            f"`tayho queues resume {facts.role}` when the reason is gone",
        )
    if facts.kind_pause_reason is not None:
        yield _Found(
            Cause.PAUSED_KIND,
            f"The kind {facts.kind} is paused by {facts.kind_pause_actor}: {facts.kind_pause_reason}",
            f"`tayho queues resume {facts.role} --kind {facts.kind}` when the reason is gone",
        )


def _unpublished(facts: JobFacts) -> Iterator[_Found]:
    if facts.run_at > facts.now:
        return
    limited = list(_over_limit(facts))
    yield from limited
    if not limited:
        behind = "" if facts.limit_key is None else ", or other jobs of its limit key come first"
        yield _Found(
            Cause.UNPUBLISHED,
            f"It is due and no publisher has put it into the queue yet{behind}.",
            "nothing for some seconds; then look whether any process runs here and reaches Redis (`/readyz`)",
            facts.outbox_due_at,
        )


def _over_limit(facts: JobFacts) -> Iterator[_Found]:
    if facts.limit_key is None:
        return
    if facts.in_flight >= facts.concurrent_max:
        yield _Found(
            Cause.OVER_LIMIT_CONCURRENT,
            f"The limit key {facts.limit_key!r} has {facts.in_flight} jobs in flight; {facts.concurrent_max} may be.",
            "wait for one of them to end, or raise the limit with `tayho limits set`",
        )
    if facts.start_free_at is not None and facts.start_free_at > facts.now:
        yield _Found(
            Cause.OVER_LIMIT_RATE,
            f"The limit key {facts.limit_key!r} has used its {facts.rate_max} starts in {facts.rate_seconds} s; "
            f"the next one is free at {_clock(facts.start_free_at)}.",
            "wait, or raise the rate with `tayho limits set`",
            facts.start_free_at,
        )


def _published(facts: JobFacts, look: QueueLook | None) -> Iterator[_Found]:
    match None if look is None else look.state:
        case RecordState.WAITING:
            yield _Found(
                Cause.WAITING_IN_QUEUE,
                "It waits in the queue behind other jobs.",
                "wait, or start more processes of its role",
            )
        case RecordState.DELAYED:
            yield _Found(
                Cause.DELAYED_IN_QUEUE,
                f"Its delivery waits in the queue for its time: {_put_off(facts)}.",
                "nothing: it is handed out by itself",
            )
        case RecordState.ACTIVE | RecordState.WAITING_CHILDREN:
            yield _Found(
                Cause.ACTIVE_IN_QUEUE_UNBEGUN,
                "A process has taken its delivery and not begun it: it is about to, or has died with it.",
                "nothing: the delivery is handed out again when its lock has run out",
            )
        case _:
            yield from _record_trouble(facts, look)


def _record_trouble(facts: JobFacts, look: QueueLook | None) -> Iterator[_Found]:
    """What is wrong with the record of a job that was published, whether the job runs or not."""
    if look is None:
        return
    check = "the delivery check" if facts.outbox_due_at is None else f"the check at {_clock(facts.outbox_due_at)}"
    if look.state is None:
        yield _Found(
            Cause.REDIS_UNREACHABLE,
            f"It was put into the queue, and where it is now could not be asked: {look.problem or 'Redis is away'}",
            "bring Redis back, or ask with a REDIS_URL that reaches it",
        )
    elif look.state is RecordState.MISSING:
        yield _Found(
            Cause.RECORD_GONE, f"Redis has lost its delivery: {check} adds it again.", "nothing", facts.outbox_due_at
        )
    elif look.state.is_terminal:
        yield _Found(
            Cause.RECORD_ENDED,
            f"Its delivery has ended in Redis and the job has not: {check} makes a new one.",
            "nothing",
            facts.outbox_due_at,
        )


def _without_workers(facts: JobFacts) -> Iterator[_Found]:
    if not facts.workers_live:
        yield _Found(
            Cause.NO_WORKER,
            f"No process of the role {facts.role} is alive here.",
            f"start one: `tayho run {facts.role}`",
        )
    elif facts.workers_draining == facts.workers_live:
        yield _Found(
            Cause.WORKERS_DRAINING,
            f"Every process of the role {facts.role} is draining ({facts.workers_live}).",
            f"start another one: `tayho run {facts.role}`",
        )


def _put_off(facts: JobFacts) -> str:
    if facts.kind_pause_reason is not None or facts.role_pause_reason is not None:
        return "it was taken while paused, and put back"
    if facts.run_at > facts.now:
        return "it was returned for later"
    return f"its last attempt failed{_error_of(facts)}" if facts.attempt_number else "it was put back"


def _error_of(facts: JobFacts) -> str:
    if not isinstance(facts.last_error, dict):
        return ""
    return f" ({facts.last_error.get('type')}: {facts.last_error.get('message')})"


def _clock(at: datetime) -> str:
    """An instant in UTC, to the second; rounded up, so that what is said to be over then is."""
    return f"{at + timedelta(seconds=1) if at.microsecond else at:%Y-%m-%d %H:%M:%S}Z"
