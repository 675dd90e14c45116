"""The statements of `sql/coordination`, and their rows as values."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, cast
from uuid import UUID

from attrs import frozen

from storage.queries import command, many, one
from storage.rows import value_from
from tayho.coordination.types import AttemptRecord, JobLine, JobRecord
from tayho.kernel.jobs import Attempt, Job

if TYPE_CHECKING:
    # A producer in a plain asyncio program binds these statements without what opens connections.
    from storage.connection import Row

ENQUEUE = many("coordination/jobs.enqueue")
FIND_BY_KEY = many("coordination/jobs.find_by_key")
MARK_BATCH = many("coordination/jobs.mark_batch")
FORGET_BATCH = many("coordination/jobs.forget_batch")
KEEP_BATCH = many("coordination/jobs.keep_batch")
INSPECT = one("coordination/jobs.inspect")
JOBS_BY_ID = many("coordination/jobs.jobs_by_id")
PROGRESS = many("coordination/jobs.progress")
ATTEMPTS_OF_JOB = many("coordination/jobs.attempts_of_job")
LIST_RECENT = many("coordination/jobs.list_recent")
COUNT_BY_STATE = many("coordination/jobs.count_by_state")
COUNT_BY_KIND = many("coordination/jobs.count_by_kind")

DUE = one("coordination/outbox.due")
CLAIM_DUE = many("coordination/outbox.claim_due")
WAITING_KEYS = many("coordination/outbox.waiting_keys")
REGISTER_LIMITS = command("coordination/outbox.register_limits")
LOCK_LIMITS = many("coordination/outbox.lock_limits")
CLAIM_LIMITED = many("coordination/outbox.claim_limited")
MARK_PUBLISHED = command("coordination/outbox.mark_published")
ADVANCE_GENERATION_IF_UNFINISHED = many("coordination/outbox.advance_generation_if_unfinished")
WAKE = command("coordination/outbox.wake")
BACKLOG = one("coordination/outbox.backlog")
AGES_BY_ROLE = many("coordination/outbox.ages_by_role")

LOCK_JOBS = many("coordination/attempts.lock_jobs")
BEGIN = many("coordination/attempts.begin")
END_IF_CURRENT = many("coordination/attempts.end_if_current")
HOLD_FOR_LINEAGE_IF_CURRENT = many("coordination/attempts.hold_for_lineage_if_current")
LOCK_IF_CURRENT = many("coordination/attempts.lock_if_current")
CONFIRM_IF_CURRENT = many("coordination/attempts.confirm_if_current")
RELEASE_LINEAGE_IF_CURRENT = many("coordination/attempts.release_lineage_if_current")
SETTLE = many("coordination/attempts.settle")

RELEASE_LINEAGES = many("coordination/releases.release_lineages")
LET_GO_OF_LINEAGE_IF_CURRENT = many("coordination/releases.let_go_of_lineage_if_current")
PERMIT_REVIVAL = command("coordination/revive.permit_revival")
REVIVE = many("coordination/revive.revive")

REGISTER_WORKER = command("coordination/workers.register")
HEARTBEAT = one("coordination/workers.heartbeat")
STOP_WORKER = command("coordination/workers.stop")
CONNECTIONS_OF_SERVER = one("coordination/workers.connections_of_server")
LIVE_WORKERS = many("coordination/workers.live_workers")

LOCK_INSTANCE = many("coordination/instances.lock_instance")
DRAIN_WORKER = command("coordination/instances.drain_worker")
UNDRAIN_WORKER = command("coordination/instances.undrain_worker")
STANDING_OF_WORKER = one("coordination/instances.standing_of_worker")

KEEP_CURSOR = command("coordination/retention.keep_cursor")
AS_RETENTION = command("coordination/retention.as_retention")
ARCHIVE_PAGE = one("coordination/retention.archive_page")
TRIM_PAGE = one("coordination/retention.trim_page")
REAP_WORKERS = command("coordination/retention.reap_workers")

LOCK_FOR_CONTROL = many("coordination/control.lock_for_control")
PERMIT_REPLAY = command("coordination/control.permit_replay")
REPLAY_IF_DEAD = many("coordination/control.replay_if_dead")
CANCEL_IF_OPEN = many("coordination/control.cancel_if_open")
PAGE_OF_DEAD = many("coordination/control.page_of_dead")
PAGE_OF_OPEN = many("coordination/control.page_of_open")
LIST_DEAD = many("coordination/control.list_dead")
STATES_OF = many("coordination/control.states_of")
RECORD_ACTION = command("coordination/control.record_action")
WAKE_WORKERS = command("coordination/control.wake_workers")

PAUSE_UNLESS_PAUSED = many("coordination/throttles.pause_unless_paused")
END_PAUSE = many("coordination/throttles.end_pause")
MAKE_PAGE_DUE = one("coordination/throttles.make_page_due")
LIST_PAUSES = many("coordination/throttles.list_pauses")
BACKLOG_BY_ROLE = many("coordination/throttles.backlog_by_role")
PUT_LIMIT = command("coordination/throttles.put_limit")
DROP_LIMIT = many("coordination/throttles.drop_limit")
LIST_LIMITS = many("coordination/throttles.list_limits")

EXPLAIN_FACTS = one("coordination/explain.facts")

ADMIT = many("coordination/batching.admit")
BATCH_IF_PENDING = many("coordination/batching.batch_if_pending")
QUARANTINE_IF_PENDING = many("coordination/batching.quarantine_if_pending")
SETTLE_IF_BATCHED = many("coordination/batching.settle_if_batched")
PERMIT_CHILDREN = command("coordination/batching.permit_children")
STANDING_OF_BATCH = one("coordination/batching.standing_of_batch")
RELEASE_CHILDREN = many("coordination/batching.release_children")
RESTORE_CHILDREN = many("coordination/batching.restore_children")

DECLARE_SCHEDULES = many("coordination/schedules.declare")
HOLD_SCHEDULES = many("coordination/schedules.hold")
OUR_SCHEDULES = many("coordination/schedules.read_ours")
ADVANCE_SCHEDULE_IF_UNDECIDED = command("coordination/schedules.advance_if_undecided")
LIST_SCHEDULES = many("coordination/schedules.list_all")


@frozen
class FenceColumns:
    """Attempts as the four parallel arrays that every fenced statement takes."""

    job_ids: list[UUID]
    attempt_numbers: list[int]
    tokens: list[str]
    worker_ids: list[UUID]

    @classmethod
    def of(cls, attempts: Sequence[Attempt]) -> FenceColumns:
        return cls(
            [attempt.job_id for attempt in attempts],
            [attempt.attempt_number for attempt in attempts],
            [attempt.token for attempt in attempts],
            [attempt.worker_id for attempt in attempts],
        )

    def arguments(self) -> tuple[list[UUID], list[int], list[str], list[UUID]]:
        return self.job_ids, self.attempt_numbers, self.tokens, self.worker_ids


def ids_of(rows: Iterable[Row]) -> frozenset[UUID]:
    return frozenset(cast("UUID", row["job_id"]) for row in rows)


def job_of(row: Row) -> Job:
    return value_from(Job, row)


def job_record_of(row: Row, attempts: Iterable[Row]) -> JobRecord:
    return value_from(JobRecord, row, attempts=tuple(value_from(AttemptRecord, attempt) for attempt in attempts))


def job_line_of(row: Row) -> JobLine:
    return value_from(JobLine, row)
