"""What coordination shows the other contexts.

Generated from tayho/coordination/module.py by `make contracts`; a stale copy fails the build.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol
from uuid import UUID

from nursery.drain import Drain
from storage.database import Connection
from tayho.coordination.types import (
    FAIR_SHARE,
    PRIORITY_DEFAULT,
    PRIORITY_MAX,
    TAGS_MAX,
    Archived,
    AttemptRecord,
    Backlog,
    Declared,
    Enqueued,
    Handler,
    Happening,
    IdempotencyConflict,
    JobLine,
    JobProgress,
    JobRecord,
    LiveWorker,
    NewJob,
    Observe,
    Quarantine,
    Revival,
    RoleAges,
    ScheduleLine,
    Settlement,
    Transaction,
    WorkerSettings,
)
from tayho.kernel.jobs import Attempt, Job
from tayho.kernel.json_document import Json

__all__ = [
    "FAIR_SHARE",
    "PRIORITY_DEFAULT",
    "PRIORITY_MAX",
    "TAGS_MAX",
    "Archived",
    "AttemptRecord",
    "Backlog",
    "Coordination",
    "Declared",
    "Enqueued",
    "Handler",
    "Happening",
    "IdempotencyConflict",
    "JobLine",
    "JobProgress",
    "JobRecord",
    "LiveWorker",
    "NewJob",
    "Observe",
    "Quarantine",
    "Revival",
    "RoleAges",
    "ScheduleLine",
    "Settlement",
    "Transaction",
    "WorkerSettings",
]


class Coordination(Protocol):
    """Jobs of one (chain, environment): recorded once, delivered until they end, changed by their current attempt."""

    async def inspect(self, job_id: UUID) -> JobRecord | None:
        """One job with its whole history, or None when there is none of that id."""
        ...

    async def jobs_by_id(self, connection: Connection, job_ids: Sequence[UUID]) -> dict[UUID, Job]:
        """These jobs as their kinds know them; within the transaction of `connection`, if it has one."""
        ...

    async def progress(self, connection: Connection, job_ids: Sequence[UUID]) -> list[JobProgress]:
        """How far each has come, in one statement; one that is not there is left out."""
        ...

    async def states_of(self, job_ids: Sequence[UUID]) -> dict[UUID, str]:
        """The states of these jobs of the chain and environment."""
        ...

    async def list_recent(
        self, *, state: str | None = None, role: str | None = None, lines_max: int = 50
    ) -> list[JobLine]:
        """The newest jobs, at most `lines_max`, of one state or role if given."""
        ...

    async def count_by_state(self) -> dict[str, int]:
        """How many jobs are in each state. Reads every job: for people and demos, not for a hot path."""
        ...

    async def count_by_kind(self) -> dict[str, dict[str, int]]:
        """How many jobs of each kind are in each state. Reads every job, as `count_by_state` does."""
        ...

    async def backlog(self) -> Backlog:
        """How far the outbox is behind."""
        ...

    async def ages_by_role(self) -> list[RoleAges]:
        """The oldest that waits and the oldest that runs, of each role that has any. Of more than OLDEST_JOBS open jobs
        those that were enqueued last are not looked at.
        """
        ...

    async def live_workers(self, *, silent_seconds_max: float = 30) -> list[LiveWorker]:
        """The workers whose last heartbeat is recent, oldest first."""
        ...

    async def list_schedules(self) -> list[ScheduleLine]:
        """Every schedule that was ever declared, by name, with its next slot on PostgreSQL's clock."""
        ...

    async def connections_wanted(self, pool_size: int, *, silent_seconds_max: float = 30) -> tuple[int, int]:
        """What all live processes may open together if their pools are of this size, and what the server takes."""
        ...

    async def enqueue(self, job: NewJob, *, tx: Connection | None = None) -> Enqueued:
        """Record one job and the promise of its delivery, in `tx` or in a transaction of its own.

        Raises IdempotencyConflict, DocumentRefused; without `tx` also CommitUnknown: the same call then asks again.
        """
        ...

    async def enqueue_many(self, new_jobs: Sequence[NewJob], *, tx: Connection | None = None) -> list[Enqueued]:
        """Record many jobs, all or none. Raises as `enqueue`."""
        ...

    async def enqueue_found(self, tx: Connection, jobs: Sequence[NewJob]) -> list[Enqueued]:
        """Record jobs that many discover at once, in `tx`: the first to tell of a key decides its request.

        A key that is taken answers with its job as it is, whatever was asked. Raises DocumentRefused. Tell
        `wake_publishers` after the commit.
        """
        ...

    async def wake_publishers(self) -> None:
        """Hint to every publisher that rows are due; a lost hint costs a poll.

        Never inside a transaction: NOTIFY serialises commits.
        """
        ...

    async def hold_for_lineage_if_current(self, tx: Connection, attempts: Sequence[Attempt]) -> frozenset[UUID]:
        """Fence an allocation: the jobs returned own a nonce from now on; the others' attempts are stale."""
        ...

    async def lock_if_current(self, tx: Connection, attempts: Sequence[Attempt]) -> frozenset[UUID]:
        """Lock the jobs whose attempt is current until `tx` ends; the others' attempts are stale."""
        ...

    async def confirm_if_current(self, tx: Connection, attempts: Sequence[Attempt]) -> frozenset[UUID]:
        """End the attempts as `confirming`: the transaction is out and no worker is held."""
        ...

    async def release_lineage_if_current(self, tx: Connection, attempt: Attempt, reason: Mapping[str, Json]) -> bool:
        """End the job as `not_actionable` because its lineage is abandoned in `tx`. False when the attempt is stale."""
        ...

    async def record_act(self, tx: Connection, action: str, actor: str, detail: Mapping[str, Json]) -> None:
        """Write an operator's act down in `tx`, before what it does there (OPS-9). It is never changed again."""
        ...

    async def settle(self, tx: Connection, settlements: Sequence[Settlement]) -> frozenset[UUID]:
        """End jobs as the chain decided, whoever holds them; returns those that were open. Part of `tx`."""
        ...

    async def admit(self, tx: Connection, jobs: Sequence[NewJob]) -> list[Enqueued]:
        """Record jobs that another job will carry out: they wait in `pending_batch` and no queue knows them (INT-3).

        Part of `tx`. Raises IdempotencyConflict, DocumentRefused.
        """
        ...

    async def batch_if_pending(self, tx: Connection, batch_job_id: UUID, job_ids: Sequence[UUID]) -> frozenset[UUID]:
        """Put jobs under a parent, which `tx` enqueues too; returns those that still waited (INT-4).

        From here on they end `dead` with the parent, however it ends without an effect, and live again with it.
        """
        ...

    async def quarantine_if_pending(self, tx: Connection, quarantines: Sequence[Quarantine]) -> frozenset[UUID]:
        """End jobs that can be in no batch; returns those that still waited (INT-6). Part of `tx`."""
        ...

    async def settle_if_batched(
        self, tx: Connection, batch_job_id: UUID, settlements: Sequence[Settlement]
    ) -> frozenset[UUID]:
        """End children of the parent by their own results; returns those that were batched (INT-7). Part of `tx`."""
        ...

    async def release_lineages(self, tx: Connection, job_ids: Sequence[UUID], reason: str) -> frozenset[UUID]:
        """Let open jobs try again at another nonce: their lineages end unsigned in `tx`, by no doing of theirs.

        Returns the jobs that had one and are open. A running attempt of theirs is fenced off and not counted.
        """
        ...

    async def let_go_of_lineage_if_current(self, tx: Connection, attempt: Attempt) -> bool:
        """The attempt goes on without a nonce: its lineage is given up unsigned in `tx`. False when it is stale."""
        ...

    async def lock_jobs(self, tx: Connection, job_ids: Sequence[UUID]) -> None:
        """Hold the jobs, whatever their state, until `tx` ends: before their lineages are looked at and changed."""
        ...

    async def revive(self, tx: Connection, revivals: Sequence[Revival]) -> frozenset[UUID]:
        """Let jobs go on whose end the chain took back (TX-6); returns those that own their lineage again, in `tx`.

        They wait in `retry` under a new generation, their budget whole, whoever held them fenced off. A job that owns
        another lineage already, whose end an operator wants, that found nothing to do since, or that retention has
        archived is left as it is and not returned: its old lineage must not act for it. Tell `wake_publishers` after.
        """
        ...

    async def publish(self, drain: Drain) -> None:
        """Publish what is due until the drain: at once on a hint, at the latest at the poll (DLV-3)."""
        ...

    async def schedule(self, declared: Sequence[Declared], drain: Drain) -> None:
        """Fire the schedules until the drain: one job a slot, however many replicas do the same (DLV-13)."""
        ...

    async def listen(self) -> None:
        """Turn other processes' notifications into hints, until cancelled. A lost LISTEN costs hints only."""
        ...

    async def recover_stalled(self, drain: Drain) -> None:
        """Hand deliveries whose lock ran out to whoever is next. BullMQ marks in one scan and moves in the next."""
        ...

    async def retain(self, days: int, drain: Drain) -> None:
        """Archive what ended more than so many days ago, and forget what nothing refers to, until the drain."""
        ...

    async def work(self, handlers: Mapping[str, Handler], drain: Drain, instance_id: str, version: str) -> None:
        """Register this process as a worker and run its roles' jobs until the drain is over."""
        ...
