"""What an operator may do to a job as it stands: pure, one answer a state."""

from __future__ import annotations

from uuid import UUID

from attrs import frozen

from tayho.coordination.control.constants import CANCELLED, OPEN_STATES
from tayho.coordination.control.errors import (
    AlreadyEnded,
    BatchedNotCancellable,
    CancelRefused,
    ChildrenElsewhere,
    ControlRefused,
    JobArchived,
    NotDead,
    ReplayedWithBatch,
)
from tayho.kernel.transitions import JOB

DEAD = "dead"


@frozen
class Standing:
    """What of a job decides over an operator's wish."""

    job_id: UUID
    state: str
    has_live_lineage: bool
    is_archived: bool
    # The type of its last error.
    error_type: str | None
    # The batch that carries it, and of a batch how many of its children are not there to be carried again.
    batch_job_id: UUID | None = None
    children_missing: int = 0


def replay_refusal(job: Standing) -> ControlRefused | None:
    """Why the job may not be replayed, or None."""
    if job.state != DEAD:
        return NotDead(job.job_id, job.state)
    if job.batch_job_id is not None:
        return ReplayedWithBatch(job.job_id, job.batch_job_id)
    if job.children_missing:
        return ChildrenElsewhere(job.job_id, job.children_missing)
    return JobArchived(job.job_id) if job.is_archived else None


def cancel_refusal(job: Standing) -> ControlRefused | None:
    """Why the job may not be cancelled, or None. One that was cancelled before may be again: the answer is the same."""
    if job.has_live_lineage or job.state == "confirming":
        return CancelRefused(job.job_id, job.state)
    if job.state in OPEN_STATES or (job.state == DEAD and job.error_type == CANCELLED):
        return None
    if job.state in JOB.terminal:
        return AlreadyEnded(job.job_id, job.state, job.error_type)
    return BatchedNotCancellable(job.job_id, job.state)
