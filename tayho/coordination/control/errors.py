"""What operators are refused, one class a refusal. Nothing was changed."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from tayho.kernel.transitions import JOB


class ControlRefused(Exception):
    """An operator asked for what may not be. Nothing was changed."""

    def __init__(self, job_id: UUID, message: str) -> None:
        super().__init__(message)
        self.job_id = job_id


class JobUnknown(ControlRefused):
    """There is no such job in this chain and environment."""

    def __init__(self, job_id: UUID) -> None:
        super().__init__(
            job_id, f"there is no job {job_id} in this chain and environment: look at CHAIN_ID and ENVIRONMENT"
        )


class NotDead(ControlRefused):
    """Only a dead job is replayed."""

    def __init__(self, job_id: UUID, state: str) -> None:
        hint = "its effect may be there already" if state in JOB.terminal else "it is still to run"
        super().__init__(job_id, f"job {job_id} is {state}, and only a dead job can be replayed: {hint}")
        self.state = state


class JobArchived(ControlRefused):
    """Retention took the request, so there is nothing left to run."""

    def __init__(self, job_id: UUID) -> None:
        super().__init__(
            job_id, f"job {job_id} is archived: retention took its request; enqueue it anew under another key"
        )


class CancelRefused(ControlRefused):
    """The job owns a nonce: its transaction may be mined, whatever is written here."""

    def __init__(self, job_id: UUID, state: str) -> None:
        super().__init__(
            job_id,
            f"job {job_id} is {state} and owns a nonce: its transaction may be mined, so the job cannot be cancelled "
            "here; replace the transaction with `tayho tx cancel`",
        )
        self.state = state


class AlreadyEnded(ControlRefused):
    """There is nothing left to cancel."""

    def __init__(self, job_id: UUID, state: str, error_type: str | None) -> None:
        how = f" ({error_type})" if error_type else ""
        super().__init__(job_id, f"job {job_id} has ended: {state}{how}; there is nothing left to cancel")
        self.state = state


class BatchedNotCancellable(ControlRefused):
    """The job is, or is about to be, a part of another's transaction."""

    def __init__(self, job_id: UUID, state: str) -> None:
        super().__init__(job_id, f"job {job_id} is {state}: what belongs to a batch cannot be cancelled alone")
        self.state = state


class ReplayedWithBatch(ControlRefused):
    """A child has no delivery of its own: only what carries it can be tried again."""

    def __init__(self, job_id: UUID, batch_job_id: UUID) -> None:
        super().__init__(
            job_id,
            f"job {job_id} is carried by batch {batch_job_id}: replay that one, or let its children wait for another "
            f"with `tayho intents release {batch_job_id}`",
        )


class ChildrenElsewhere(ControlRefused):
    """A batch is replayed with all that it carried, or not at all (INT-7)."""

    def __init__(self, job_id: UUID, missing: int) -> None:
        super().__init__(
            job_id,
            f"batch {job_id} cannot be replayed: {missing} of its children were released to the line, or archived; "
            "what was released is carried by another batch",
        )


class NotABatch(ControlRefused):
    """The job carries no others."""

    def __init__(self, job_id: UUID) -> None:
        super().__init__(job_id, f"job {job_id} carries no others, or let them go before: there is nothing to release")


class BatchMayTakeEffect(ControlRefused):
    """What a batch carries is let go only where the batch took no effect and is not tried again."""

    def __init__(self, job_id: UUID, state: str) -> None:
        super().__init__(
            job_id,
            f"batch {job_id} is {state}: its children may still take effect with it, or did; only those of a batch "
            "that ended dead, not_actionable or quarantined are released",
        )


class InstanceRefused(Exception):
    """An operator asked for what may not be of a process. Nothing was changed."""


class InstanceUnknown(InstanceRefused):
    """No process of this name ever ran here."""

    def __init__(self, instance: str) -> None:
        super().__init__(
            f"no process {instance!r} is known in this chain and environment: `tayho jobs instances` lists who lives; "
            "look at CHAIN_ID and ENVIRONMENT"
        )


class InstanceGone(InstanceRefused):
    """The process has ended, or says nothing any more."""

    def __init__(self, instance: str, worker_id: UUID, silent_seconds: float) -> None:
        super().__init__(
            f"the process {instance!r} (worker {worker_id}) has ended, or says nothing since {silent_seconds:.0f} s: "
            "it takes no work"
        )


class InstanceAmbiguous(InstanceRefused):
    """Several processes live under one INSTANCE_ID."""

    def __init__(self, instance: str, worker_ids: Sequence[UUID]) -> None:
        super().__init__(
            f"{len(worker_ids)} processes live as {instance!r}: name one by its worker id, "
            f"{' or '.join(str(one) for one in worker_ids)}; and give each an INSTANCE_ID of its own"
        )


class AnotherProcess(InstanceRefused):
    """The name is another process's by now."""

    def __init__(self, instance: str, worker_id: UUID, started_at: datetime, drained_id: UUID) -> None:
        super().__init__(
            f"{instance!r} is another process since {started_at:%Y-%m-%d %H:%M:%S} UTC (worker {worker_id}), which "
            f"nobody drained and which takes work; the drained one (worker {drained_id}) is gone"
        )


class InstanceStopping(InstanceRefused):
    """The process was told to end by a signal: nothing undoes that."""

    def __init__(self, instance: str, worker_id: UUID) -> None:
        super().__init__(
            f"the process {instance!r} (worker {worker_id}) was told to end and will: start another in its place"
        )
