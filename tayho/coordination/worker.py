"""The worker: takes deliveries in, runs their handlers, ends their attempts, acknowledges (DLV-5, DLV-6)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from uuid import UUID

import structlog
import trio

from nursery.cleanup import CleanupExpired, finish
from nursery.coalesce import Coalescer, CoalescerClosed
from nursery.drain import Drain
from rpc.errors import RpcError, is_passing
from storage.commits import again_if_lost, isolating
from storage.database import Database
from storage.delivery import DeliveryQueue
from storage.errors import CommitUnknown, ReplyLost, SerializationLost, StorageError, StoreUnavailable
from storage.records import Completion, Delivery
from tayho.coordination.attempts import Begun, End, Ends, begin, end_of, failed
from tayho.coordination.held import Held, HeldDeliveries
from tayho.coordination.types import Handler, WorkerSettings
from tayho.kernel.jobs import Attempt, Ended, Job, Postponed, Quarantined, RequestRefused, StaleAttempt
from tayho.kernel.steps import step

log = structlog.get_logger("tayho.worker")

FETCH_MAX = 32
WAIT_SECONDS = 5
# Between tries while PostgreSQL or Redis is away: short enough that a restart is not noticed for long.
TROUBLE_SECONDS = 1
# A kind that this release does not know may be known to another: it is left to it, never discarded (DLV-10).
PUT_BACK_SECONDS = {"unknown_kind": 30, "unbegun": 1}
# An attempt that met an outage comes back after this, and spends nothing of its job's budget.
OUTAGE_DELAY_SECONDS = 5
OUTAGES = (StoreUnavailable, SerializationLost, CommitUnknown, ReplyLost)
END_SECONDS = 10
JOB_RETRY = "retry"
DECLINED = {
    "damaged": "the record is damaged: its data are missing or unreadable",
    "unknown_job": "there is no such job",
    "foreign": "the job belongs to another chain or environment",
    "exhausted": "every attempt is spent",
}


class Worker:
    """Runs the jobs of one process's roles until the drain."""

    def __init__(
        self,
        database: Database,
        queues: Sequence[DeliveryQueue],
        handlers: Mapping[str, Handler],
        worker_id: UUID,
        chain_id: int,
        environment: str,
        settings: WorkerSettings,
        drain: Drain,
    ) -> None:
        self._database = database
        self._queues = queues
        self._handlers = handlers
        self._worker_id = worker_id
        self._chain_id = chain_id
        self._environment = environment
        self._settings = settings
        self._drain = drain
        self._slots = trio.CapacityLimiter(settings.concurrency)
        self._ends = Coalescer(
            isolating(Ends(database, settings.attempts_max).end_all_if_current),
            name="ends",
            items_max=500,
            queued_max=5_000,
        )
        self._acks = {
            queue.name: Coalescer(queue.complete_many, name=f"acks {queue.name}", items_max=500, queued_max=5_000)
            for queue in queues
        }
        self.held = HeldDeliveries(settings.lock_seconds)

    async def run(self) -> None:
        """Work until the drain is requested and the handlers have ended or were cut off.

        Locks are renewed and ends are written until the last handler is through: a drain that stopped renewing first
        would hand its own work to a sibling while it still runs.
        """
        async with trio.open_nursery() as upkeep:
            upkeep.start_soon(self._ends.run, name="ends")
            for acks in self._acks.values():
                upkeep.start_soon(acks.run, name="acks")
            upkeep.start_soon(self.held.keep, name="lock renewal")
            async with self._drain.bounded() as bounded, trio.open_nursery() as handlers:
                for queue in self._queues:
                    handlers.start_soon(self._intake, queue, handlers, name=f"intake {queue.name}")
            if bounded.cut_off:
                log.warning("handlers_cut_off", seconds=self._drain.seconds)
            upkeep.cancel_scope.cancel()

    async def _intake(self, queue: DeliveryQueue, handlers: trio.Nursery) -> None:
        while not self._drain.requested:
            slots = await self._take_slots()
            taken: Sequence[Delivery] = ()
            try:
                if not self._drain.requested:
                    taken = await queue.fetch(len(slots))
                    await self._begin(queue, taken, slots, handlers)
            except StorageError as error:
                log.warning("intake_interrupted", queue=queue.name, error=str(error))
                await self._idle(TROUBLE_SECONDS)
            finally:
                for slot in slots:
                    self._slots.release_on_behalf_of(slot)
            if not taken:
                await self._wait(queue)

    async def _take_slots(self) -> list[object]:
        """Wait for one free handler slot, then take as many as are free: fetch what can be run, and no more."""
        slots: list[object] = [object()]
        await self._slots.acquire_on_behalf_of(slots[0])
        while len(slots) < FETCH_MAX and self._slots.available_tokens > 0:
            slots.append(object())
            self._slots.acquire_on_behalf_of_nowait(slots[-1])
        return slots

    async def _wait(self, queue: DeliveryQueue) -> None:
        """Wait for a delivery; the drain ends the wait. Only this wait may be cancelled, never the fetch (DLV-5)."""
        async with trio.open_nursery() as waits:
            waits.start_soon(self._cancel_on_drain, waits.cancel_scope)
            try:
                await queue.wait(WAIT_SECONDS)
            except StorageError as error:
                log.warning("wait_interrupted", queue=queue.name, error=str(error))
                await trio.sleep(TROUBLE_SECONDS)
            waits.cancel_scope.cancel()

    async def _idle(self, seconds: float) -> None:
        with trio.move_on_after(seconds):
            await self._drain.wait_requested()

    async def _cancel_on_drain(self, scope: trio.CancelScope) -> None:
        await self._drain.wait_requested()
        scope.cancel()

    async def _begin(
        self, queue: DeliveryQueue, taken: Sequence[Delivery], slots: list[object], handlers: trio.Nursery
    ) -> None:
        """Begin what may begin, each with a slot of its own, and decline the rest.

        Starting comes first: what PostgreSQL calls begun must have its handler, whatever becomes of the others.
        """
        if not taken:
            return
        step("intake.after_fetch")
        # After a lost reply a fetch may find more than it was asked for.
        wanted, surplus = taken[: len(slots)], taken[len(slots) :]
        whole = [delivery for delivery in wanted if delivery.damaged is None]
        declined = [Begun(delivery, "damaged") for delivery in wanted if delivery.damaged is not None]
        declined += [Begun(delivery, "surplus") for delivery in surplus]
        verdicts: Sequence[Begun] = ()
        lost: StorageError | None = None
        try:
            verdicts = await self._verdicts(whole)
        except StorageError as error:
            # PostgreSQL is away: give the deliveries back, instead of letting their locks run out one by one.
            declined += [Begun(delivery, "unbegun") for delivery in whole]
            lost = error
        for begun in verdicts:
            if begun.verdict in ("begun", "held") and begun.job is not None and begun.attempt is not None:
                # The slot goes with the handler, which gives it back.
                handlers.start_soon(
                    self._run, queue, begun.delivery, begun.job, begun.attempt, slots.pop(), name=str(begun.job.job_id)
                )
            else:
                declined.append(begun)
        await self._decline_all(queue, declined)
        if lost is not None:
            raise lost

    async def _verdicts(self, deliveries: Sequence[Delivery]) -> Sequence[Begun]:
        if not deliveries:
            return []
        ask = partial(
            begin,
            self._database,
            deliveries,
            worker_id=self._worker_id,
            attempts_max=self._settings.attempts_max,
            chain_id=self._chain_id,
            environment=self._environment,
            kinds=list(self._handlers),
        )
        try:
            return await again_if_lost(ask)
        except CommitUnknown:
            # Under the same tokens: attempts that did begin answer `held`, and are ours.
            return await again_if_lost(ask)

    async def _decline_all(self, queue: DeliveryQueue, declined: Sequence[Begun]) -> None:
        for begun in declined:
            try:
                await self._decline(queue, begun)
            except StorageError as error:
                # Its lock runs out, and it is handed out again.
                log.warning("decline_lost", delivery_id=begun.delivery.delivery_id, error=str(error))

    async def _decline(self, queue: DeliveryQueue, begun: Begun) -> None:
        """Answer a delivery that may not run now. Its record is ended, or put back; the job is left as it is."""
        log.info("delivery_declined", delivery_id=begun.delivery.delivery_id, verdict=begun.verdict)
        match begun.verdict:
            case "early" | "unknown_kind" | "surplus" | "unbegun":
                delay_seconds = max(begun.early_seconds, PUT_BACK_SECONDS.get(begun.verdict, 0))
                await queue.put_back(begun.delivery, delay_seconds=delay_seconds)
                step("delivery.after_put_back")
            case "damaged" | "unknown_job" | "foreign" | "exhausted":
                await queue.fail(begun.delivery, DECLINED[begun.verdict], retry=False)
                step("delivery.after_refusal")
            case _:
                await self._acks[queue.name].submit(Completion(begun.delivery))

    async def _run(self, queue: DeliveryQueue, delivery: Delivery, job: Job, attempt: Attempt, slot: object) -> None:
        """Run one handler to an end that PostgreSQL knows, whatever happens to it."""
        bound = log.bind(job_id=str(job.job_id), kind=job.kind, attempt=attempt.attempt_number)
        try:
            with self.held.holding(queue, delivery) as held:
                # What is written if the drain runs out under the handler: the job returns, no attempt is spent.
                end: End | Ended = End(attempt, "returned", {"reason": "cut off by the drain"})
                try:
                    end = await self._handle(job, attempt, held)
                except StaleAttempt:
                    # Another attempt owns the job, or the chain ended it: whoever does so answers for the delivery.
                    bound.info("attempt_stale")
                    end = Ended()
                finally:
                    await finish(self._end, held, end, seconds=END_SECONDS)
        except StaleAttempt:
            bound.info("attempt_stale")
        except (StorageError, CleanupExpired, CoalescerClosed) as error:
            # The end, or only its acknowledgement, may be lost. The delivery comes again, and the fence decides.
            bound.warning("attempt_end_unknown", error=str(error))
        finally:
            self._slots.release_on_behalf_of(slot)

    async def _handle(self, job: Job, attempt: Attempt, held: Held) -> End | Ended:
        """The handler's end. A lost lock cancels the handler and returns the job without spending an attempt."""
        with held.scope:
            try:
                return end_of(attempt, await self._handlers[job.kind](job, attempt))
            except StaleAttempt:
                raise
            except RequestRefused as error:
                return end_of(attempt, Quarantined(str(error)))
            except (*OUTAGES, RpcError) as error:
                if isinstance(error, RpcError) and not is_passing(error):
                    return failed(attempt, error)
                # An outage is no fault of the job: it must not spend the job's attempts.
                log.warning("attempt_met_an_outage", job_id=str(job.job_id), kind=job.kind, error=str(error))
                return end_of(attempt, Postponed(str(error), OUTAGE_DELAY_SECONDS))
            except Exception as error:  # noqa: BLE001 - recorded as the attempt's end; one job's bug stays its own
                log.warning("attempt_failed", job_id=str(job.job_id), kind=job.kind, error=repr(error))
                return failed(attempt, error)
        return End(attempt, "returned", {"reason": held.loss or "cancelled"})

    async def _end(self, held: Held, end: End | Ended) -> None:
        """Write the end, then acknowledge. The acknowledgement is best effort: PostgreSQL has decided (DLV-5)."""
        goes_on = isinstance(end, End) and await self._ends.submit(end) == JOB_RETRY
        held.is_acknowledging = True
        queue, delivery = held.queue, held.delivery
        match end:
            case End(verdict="failed"):
                await queue.fail(delivery, str(end.detail["message"]), retry=goes_on)
            case End(verdict="returned"):
                await queue.put_back(delivery, delay_seconds=end.delay_seconds)
            case _:
                await self._acks[queue.name].submit(Completion(delivery))
        step("attempt.after_ack")
