"""The face of coordination."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from uuid import UUID

import structlog
import trio

from nursery.drain import Drain
from nursery.periodic import Hint, every
from storage.database import Connection, Database
from storage.delivery import DeliveryQueue
from storage.errors import StorageError, StoreUnavailable
from tayho.coordination import batching, jobs, reviving, store
from tayho.coordination.control.bulk import BulkControl
from tayho.coordination.control.errors import ControlRefused, InstanceRefused
from tayho.coordination.control.instances import Instances
from tayho.coordination.control.jobs import JobControl
from tayho.coordination.control.throttles import Throttles
from tayho.coordination.control.types import (
    BulkDone,
    Cancelled,
    Deed,
    Drained,
    JobFilter,
    Limit,
    LimitLine,
    Pause,
    Preview,
    RoleBacklog,
    Standing,
)
from tayho.coordination.discovered import enqueue_found
from tayho.coordination.explaining.facts import Explainer
from tayho.coordination.explaining.types import Cause, Explanation
from tayho.coordination.frontier import BEHIND_SECONDS
from tayho.coordination.jobs import enqueue as enqueue_jobs
from tayho.coordination.observing import observe_nothing
from tayho.coordination.outbox import Publisher
from tayho.coordination.producing import enqueue_in
from tayho.coordination.reading import JobReader
from tayho.coordination.retention import Retention
from tayho.coordination.schedule_declarations import problems_of as schedule_problems
from tayho.coordination.schedules import Scheduler
from tayho.coordination.types import (
    Declared,
    Enqueued,
    Handler,
    Happening,
    NewJob,
    Observe,
    Quarantine,
    Revival,
    Settlement,
    WorkerSettings,
)
from tayho.coordination.waking import wake
from tayho.coordination.worker import Worker
from tayho.coordination.workers import HEARTBEAT_SECONDS, WorkerRow
from tayho.kernel.ids import new_id
from tayho.kernel.jobs import Attempt
from tayho.kernel.json_document import Json

__all__ = [
    "BulkControl",
    "BulkDone",
    "Cancelled",
    "Cause",
    "ControlRefused",
    "Coordination",
    "Deed",
    "Drained",
    "Explainer",
    "Explanation",
    "InstanceRefused",
    "Instances",
    "JobControl",
    "JobFilter",
    "JobReader",
    "Limit",
    "LimitLine",
    "Pause",
    "Preview",
    "RoleBacklog",
    "Standing",
    "Throttles",
    "enqueue_in",
    "enqueue_jobs",
    "schedule_problems",
]

log = structlog.get_logger("tayho.coordination")

OUTBOX_CHANNEL = "tayho_outbox"
CONTROL_CHANNEL = "tayho_control"
LISTEN_AGAIN_SECONDS = 1
LAST_WORD_SECONDS = 5
STALLED_SCAN_SECONDS_MIN = 1
RETENTION_SECONDS = 60


class Coordination(JobReader):
    """Jobs of one (chain, environment): recorded once, delivered until they end, changed by their current attempt."""

    def __init__(
        self,
        database: Database,
        queue_of: Callable[[str], DeliveryQueue],
        chain_id: int,
        environment: str,
        settings: WorkerSettings,
        observe: Observe = observe_nothing,
    ) -> None:
        self._observe = observe
        super().__init__(database, chain_id, environment)
        self._queue_of = queue_of
        self._settings = settings
        self._outbox_hint = Hint()
        self._control_hint = Hint()
        # Whether an operator keeps this process from new work, as of its last heartbeat.
        self.is_drained = False

    async def enqueue(self, job: NewJob, *, tx: Connection | None = None) -> Enqueued:
        """Record one job and the promise of its delivery, in `tx` or in a transaction of its own.

        Raises IdempotencyConflict, DocumentRefused; without `tx` also CommitUnknown: the same call then asks again.
        """
        answers = await self.enqueue_many([job], tx=tx)
        return answers[0]

    async def enqueue_many(self, new_jobs: Sequence[NewJob], *, tx: Connection | None = None) -> list[Enqueued]:
        """Record many jobs, all or none. Raises as `enqueue`."""
        if tx is not None:
            return await enqueue_in(tx, self._chain_id, self._environment, new_jobs)
        answers = await jobs.enqueue(self._database, self._chain_id, self._environment, new_jobs)
        await self.wake_publishers()
        return answers

    async def enqueue_found(self, tx: Connection, jobs: Sequence[NewJob]) -> list[Enqueued]:
        """Record jobs that many discover at once, in `tx`: the first to tell of a key decides its request.

        A key that is taken answers with its job as it is, whatever was asked. Raises DocumentRefused. Tell
        `wake_publishers` after the commit.
        """
        return await enqueue_found(tx, self._chain_id, self._environment, jobs)

    async def wake_publishers(self) -> None:
        """Hint to every publisher that rows are due; a lost hint costs a poll.

        Never inside a transaction: NOTIFY serialises commits.
        """
        self._outbox_hint.give()
        await wake(self._database, store.WAKE)

    async def hold_for_lineage_if_current(self, tx: Connection, attempts: Sequence[Attempt]) -> frozenset[UUID]:
        """Fence an allocation: the jobs returned own a nonce from now on; the others' attempts are stale."""
        return store.ids_of(await store.HOLD_FOR_LINEAGE_IF_CURRENT(tx, *store.FenceColumns.of(attempts).arguments()))

    async def lock_if_current(self, tx: Connection, attempts: Sequence[Attempt]) -> frozenset[UUID]:
        """Lock the jobs whose attempt is current until `tx` ends; the others' attempts are stale."""
        return store.ids_of(await store.LOCK_IF_CURRENT(tx, *store.FenceColumns.of(attempts).arguments()))

    async def confirm_if_current(self, tx: Connection, attempts: Sequence[Attempt]) -> frozenset[UUID]:
        """End the attempts as `confirming`: the transaction is out and no worker is held."""
        return store.ids_of(await store.CONFIRM_IF_CURRENT(tx, *store.FenceColumns.of(attempts).arguments()))

    async def release_lineage_if_current(self, tx: Connection, attempt: Attempt, reason: Mapping[str, Json]) -> bool:
        """End the job as `not_actionable` because its lineage is abandoned in `tx`. False when the attempt is stale."""
        rows = await store.RELEASE_LINEAGE_IF_CURRENT(tx, *store.FenceColumns.of([attempt]).arguments(), [dict(reason)])
        return bool(rows)

    async def record_act(self, tx: Connection, action: str, actor: str, detail: Mapping[str, Json]) -> None:
        """Write an operator's act down in `tx`, before what it does there (OPS-9). It is never changed again."""
        await store.RECORD_ACTION(tx, self._chain_id, self._environment, action, actor, [], dict(detail))

    async def settle(self, tx: Connection, settlements: Sequence[Settlement]) -> frozenset[UUID]:
        """End jobs as the chain decided, whoever holds them; returns those that were open. Part of `tx`."""
        await store.LOCK_JOBS(tx, [settlement.job_id for settlement in settlements])
        rows = await store.SETTLE(
            tx,
            [settlement.job_id for settlement in settlements],
            [settlement.state for settlement in settlements],
            [dict(settlement.detail) for settlement in settlements],
        )
        return store.ids_of(rows)

    async def admit(self, tx: Connection, jobs: Sequence[NewJob]) -> list[Enqueued]:
        """Record jobs that another job will carry out: they wait in `pending_batch` and no queue knows them (INT-3).

        Part of `tx`. Raises IdempotencyConflict, DocumentRefused.
        """
        return await batching.admit(tx, self._chain_id, self._environment, jobs)

    async def batch_if_pending(self, tx: Connection, batch_job_id: UUID, job_ids: Sequence[UUID]) -> frozenset[UUID]:
        """Put jobs under a parent, which `tx` enqueues too; returns those that still waited (INT-4).

        From here on they end `dead` with the parent, however it ends without an effect, and live again with it.
        """
        return await batching.batch_if_pending(tx, batch_job_id, job_ids)

    async def quarantine_if_pending(self, tx: Connection, quarantines: Sequence[Quarantine]) -> frozenset[UUID]:
        """End jobs that can be in no batch; returns those that still waited (INT-6). Part of `tx`."""
        return await batching.quarantine_if_pending(tx, quarantines)

    async def settle_if_batched(
        self, tx: Connection, batch_job_id: UUID, settlements: Sequence[Settlement]
    ) -> frozenset[UUID]:
        """End children of the parent by their own results; returns those that were batched (INT-7). Part of `tx`."""
        return await batching.settle_if_batched(tx, batch_job_id, settlements)

    async def release_lineages(self, tx: Connection, job_ids: Sequence[UUID], reason: str) -> frozenset[UUID]:
        """Let open jobs try again at another nonce: their lineages end unsigned in `tx`, by no doing of theirs.

        Returns the jobs that had one and are open. A running attempt of theirs is fenced off and not counted.
        """
        await store.LOCK_JOBS(tx, job_ids)
        return store.ids_of(await store.RELEASE_LINEAGES(tx, job_ids, reason))

    async def let_go_of_lineage_if_current(self, tx: Connection, attempt: Attempt) -> bool:
        """The attempt goes on without a nonce: its lineage is given up unsigned in `tx`. False when it is stale."""
        rows = await store.LET_GO_OF_LINEAGE_IF_CURRENT(tx, *store.FenceColumns.of([attempt]).arguments())
        return bool(rows)

    async def lock_jobs(self, tx: Connection, job_ids: Sequence[UUID]) -> None:
        """Hold the jobs, whatever their state, until `tx` ends: before their lineages are looked at and changed."""
        await reviving.lock_jobs(tx, job_ids)

    async def revive(self, tx: Connection, revivals: Sequence[Revival]) -> frozenset[UUID]:
        """Let jobs go on whose end the chain took back (TX-6); returns those that own their lineage again, in `tx`.

        They wait in `retry` under a new generation, their budget whole, whoever held them fenced off. A job that owns
        another lineage already, whose end an operator wants, that found nothing to do since, or that retention has
        archived is left as it is and not returned: its old lineage must not act for it. Tell `wake_publishers` after.
        """
        return await reviving.revive(tx, revivals)

    async def publish(self, drain: Drain) -> None:
        """Publish what is due until the drain: at once on a hint, at the latest at the poll (DLV-3)."""

        async def repeat(period_seconds: float, work: Callable[[], Awaitable[bool | None]], hint: Hint | None) -> None:
            await every(
                period_seconds,
                work,
                hint=hint,
                transient=(StorageError,),
                backoff_seconds_max=5,
                on_error=lambda error, failures: log.warning("publish_failed", failures=failures, error=str(error)),
                stop=drain,
            )

        async with self._database.reserve() as own, trio.open_nursery() as tasks:
            publisher = Publisher(
                self._database, self._queue_of, self._chain_id, self._environment, self._settings, own, self._observe
            )

            async def look_behind() -> None:
                if await publisher.look_behind():
                    self._outbox_hint.give()

            # Beside the publishing, because while an old snapshot is held it may take as long as a hundred polls.
            tasks.start_soon(repeat, BEHIND_SECONDS, look_behind, None, name="look behind")
            await repeat(self._settings.poll_milliseconds / 1_000, publisher.publish_due, self._outbox_hint)

    async def schedule(self, declared: Sequence[Declared], drain: Drain) -> None:
        """Fire the schedules until the drain: one job a slot, however many replicas do the same (DLV-13)."""
        scheduler = Scheduler(self._database, self._chain_id, self._environment, declared, self.wake_publishers)
        await every(
            0,  # The scheduler sleeps until its next slot by itself.
            partial(scheduler.tick_and_sleep, drain),
            transient=(StorageError,),
            backoff_seconds_max=5,
            on_error=lambda error, failures: log.warning("schedule_failed", failures=failures, error=str(error)),
            stop=drain,
        )

    async def listen(self) -> None:
        """Turn other processes' notifications into hints, until cancelled. A lost LISTEN costs hints only."""
        hints = {OUTBOX_CHANNEL: self._outbox_hint, CONTROL_CHANNEL: self._control_hint}

        async def once() -> None:
            await self._database.listen(list(hints), lambda channel, _payload: hints[channel].give())

        await every(
            LISTEN_AGAIN_SECONDS,
            once,
            transient=(StoreUnavailable,),
            on_error=lambda error, failures: log.warning("listen_lost", failures=failures, error=str(error)),
        )

    async def recover_stalled(self, drain: Drain) -> None:
        """Hand deliveries whose lock ran out to whoever is next. BullMQ marks in one scan and moves in the next."""
        queues = [self._queue_of(role) for role in self._settings.roles]

        async def scan() -> None:
            for queue in queues:
                recovered = await queue.recover_stalled()
                if recovered:
                    self._observe(Happening.STALLED, "", len(recovered))
                    log.warning("stalled_recovered", queue=queue.name, deliveries=recovered)

        await every(
            max(self._settings.lock_seconds / 2, STALLED_SCAN_SECONDS_MIN),
            scan,
            transient=(StorageError,),
            on_error=lambda error, failures: log.warning("stalled_scan_failed", failures=failures, error=str(error)),
            stop=drain,
        )

    async def retain(self, days: int, drain: Drain) -> None:
        """Archive what ended more than so many days ago, and forget what nothing refers to, until the drain."""
        retention = Retention(self._database, self._chain_id, self._environment, days)
        await every(
            RETENTION_SECONDS,
            retention.turn,
            transient=(StorageError,),
            on_error=lambda error, failures: log.warning("retention_failed", failures=failures, error=str(error)),
            stop=drain,
        )

    async def work(self, handlers: Mapping[str, Handler], drain: Drain, instance_id: str, version: str) -> None:
        """Register this process as a worker and run its roles' jobs until the drain is over."""
        row = WorkerRow(self._database, new_id(), drain)
        kinds = sorted(handlers)
        # A server that answers nothing must not keep a process that was told to end.
        async with drain.bounded() as start:
            await row.register(instance_id, self._chain_id, self._environment, self._settings.roles, version, kinds)
        if start.cut_off:
            return
        async with self._database.reserve() as begins, self._database.reserve() as ends:
            worker = Worker(
                self._database,
                {role: self._queue_of(role) for role in self._settings.roles},
                handlers,
                row.worker_id,
                self._chain_id,
                self._environment,
                self._settings,
                drain,
                self._outbox_hint.give,
                begins,
                ends,
                self._observe,
                self._control_hint.give,
            )
            await self._work_while_alive(row, worker, drain)

    async def _work_while_alive(self, row: WorkerRow, worker: Worker, drain: Drain) -> None:
        async def once() -> bool:
            was_idle = worker.is_idle
            orders = await row.heartbeat(worker.running, is_idle=was_idle)
            self.is_drained = orders.is_drained
            worker.obey(orders)
            # Drained just now with nothing in hand: who waits for it is told at once.
            return worker.is_idle and not was_idle

        async def tell_stop() -> None:
            await drain.wait_requested()
            self._control_hint.give()

        async def beat() -> None:
            await every(
                HEARTBEAT_SECONDS,
                once,
                hint=self._control_hint,
                transient=(StorageError,),
                on_error=lambda error, failures: log.warning("heartbeat_failed", failures=failures, error=str(error)),
            )

        try:
            # Before the first fetch: what is paused now must not be taken first and put back after.
            await once()
        except StorageError as error:
            log.warning("heartbeat_failed", failures=1, error=str(error))
        async with trio.open_nursery() as tasks:
            tasks.start_soon(beat, name="heartbeat")
            tasks.start_soon(tell_stop, name="word of the drain")
            await worker.run()
            tasks.cancel_scope.cancel()
        try:
            with trio.fail_after(LAST_WORD_SECONDS):
                await row.stop()
        except (StorageError, trio.TooSlowError) as error:
            # Its heartbeat grows old: that tells the same, later.
            log.warning("worker_stop_unrecorded", error=str(error))
