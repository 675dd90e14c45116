"""What is known of a job, and what it comes to: the question and the answer of `explain` (DLV-14)."""

from __future__ import annotations

from datetime import datetime
from enum import Enum
from uuid import UUID

from attrs import frozen

from storage.records import RecordState
from tayho.kernel.json_document import Json


class Cause(Enum):
    """Why a job is where it is. Scripts may rely on these words."""

    ENDED = "ended"
    CONFIRMING = "confirming"
    RUNNING = "running"
    RUNNING_SILENT_WORKER = "running_silent_worker"
    CANCEL_REQUESTED = "cancel_requested"
    NOT_DUE = "not_due"
    PAUSED_ROLE = "paused_role"
    PAUSED_KIND = "paused_kind"
    OVER_LIMIT_CONCURRENT = "over_limit_concurrent"
    OVER_LIMIT_RATE = "over_limit_rate"
    UNPUBLISHED = "unpublished"
    WAITING_IN_QUEUE = "waiting_in_queue"
    DELAYED_IN_QUEUE = "delayed_in_queue"
    ACTIVE_IN_QUEUE_UNBEGUN = "active_in_queue_unbegun"
    RECORD_GONE = "record_gone"
    RECORD_ENDED = "record_ended"
    NO_WORKER = "no_worker"
    WORKERS_DRAINING = "workers_draining"
    REDIS_UNREACHABLE = "redis_unreachable"
    BATCH = "batch"


@frozen
class JobFacts:
    """One job at one moment of PostgreSQL's clock; every other time here is by the same clock."""

    job_id: UUID
    role: str
    kind: str
    state: str
    generation: int
    attempt_number: int
    attempts_spent: int
    has_live_lineage: bool
    cancel_requested_at: datetime | None
    run_at: datetime
    created_at: datetime
    ended_at: datetime | None
    archived_at: datetime | None
    last_error: Json
    limit_key: str | None
    now: datetime
    # When a publisher looks at it next; None where nothing is to be delivered.
    outbox_due_at: datetime | None
    published_at: datetime | None
    # Of the attempt that runs, and of the process that runs it.
    attempt_started_at: datetime | None
    worker_instance_id: str | None
    heartbeat_age_seconds: float | None
    worker_has_stopped: bool
    role_pause_reason: str | None
    role_pause_actor: str | None
    kind_pause_reason: str | None
    kind_pause_actor: str | None
    # Of the limit key: the fair window where no number was set.
    concurrent_max: int
    rate_max: int | None
    rate_seconds: int | None
    in_flight: int
    # When the key's bucket has a whole start again, if it has a rate.
    start_free_at: datetime | None
    # Processes of the role that beat, and how many of them take nothing new.
    workers_live: int
    workers_draining: int


@frozen
class QueueLook:
    """What Redis says of the record of the present generation; `state` is None where it could not be asked."""

    state: RecordState | None
    problem: str | None = None


@frozen
class Reason:
    """One cause, told."""

    code: Cause
    sentence: str


@frozen
class Explanation:
    """Why a job is where it is, the first thing first."""

    job_id: UUID
    state: str
    summary: str
    causes: tuple[Reason, ...]
    next_action: str
    # When something happens by itself next, where that is known.
    next_at: datetime | None
    facts: JobFacts
    # The record of the present generation, where it was looked for and found out.
    record_state: str | None
