"""The worker: takes deliveries in, and hands those that PostgreSQL lets begin to their handlers (DLV-5, DLV-6)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from uuid import UUID

import structlog
import trio

from nursery.drain import Drain
from nursery.groups import unwrapped
from storage.commits import again_if_lost
from storage.database import Asks, Database
from storage.delivery import DeliveryQueue
from storage.errors import CommitUnknown, StorageError
from storage.records import Acknowledgement, Completion, Delivery, Failure, Return
from tayho.coordination.attempts import Begun, begin
from tayho.coordination.running import Runner
from tayho.coordination.slots import Slots
from tayho.coordination.types import Handler, Happening, Observe, WorkerSettings
from tayho.coordination.workers import Orders
from tayho.kernel.steps import step

log = structlog.get_logger("tayho.worker")

# About a third of the handlers that a busy process has: while one batch runs, another begins and a third is fetched.
FETCH_MAX = 86
WAIT_SECONDS = 5
# Between tries while PostgreSQL or Redis is away: short enough that a restart is not noticed for long.
TROUBLE_SECONDS = 1
# At least; PostgreSQL says where it is longer.
PUT_BACK_SECONDS = {"early": 0, "surplus": 0, "unbegun": 1, "paused": 15, "unknown_kind": 0}
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
        queues: Mapping[str, DeliveryQueue],
        handlers: Mapping[str, Handler],
        worker_id: UUID,
        chain_id: int,
        environment: str,
        settings: WorkerSettings,
        drain: Drain,
        limit_freed: Callable[[], None],
        begins: Asks,
        ends: Asks,
        observe: Observe,
        became_idle: Callable[[], None] = lambda: None,
    ) -> None:
        """`queues` by role; `begins` and `ends` run the statements of every job.

        `limit_freed` is called when a job ended that counted against a limit, `became_idle` when the last one of a
        drained worker has.
        """
        self._became_idle = became_idle
        self._queues = queues
        self._worker_id = worker_id
        self._drain = drain
        self._ask_to_begin = partial(
            begin,
            database,
            begins,
            worker_id=worker_id,
            attempts_max=settings.attempts_max,
            chain_id=chain_id,
            environment=environment,
            kinds=list(handlers),
        )
        self._slots = Slots(settings.concurrency)
        self._runner = Runner(ends, handlers, settings, limit_freed, observe)
        self._observe = observe
        self._is_drained = False
        self._drain_changed = trio.Event()
        self._paused_roles: frozenset[str] = frozenset()
        self._pauses_changed = trio.Event()
        # PostgreSQL was away when last asked; nothing more is taken out of Redis meanwhile.
        self._trouble_until = -1.0

    @property
    def running(self) -> list[UUID]:
        """The jobs whose handlers run here now."""
        return self._runner.held.job_ids

    @property
    def is_idle(self) -> bool:
        """Whether it was drained by an operator, and has nothing in hand: then it stays so until it is undrained."""
        return self._is_drained and self._slots.are_free

    def obey(self, orders: Orders) -> None:
        """Leave paused roles alone, and all while drained; take resumed ones up; stop what is not wanted any more."""
        if orders.is_drained != self._is_drained:
            log.info("drained" if orders.is_drained else "undrained")
            self._is_drained = orders.is_drained
            self._drain_changed.set()
            self._drain_changed = trio.Event()
        paused = frozenset(self._queues) if orders.is_drained else orders.paused_roles
        if paused != self._paused_roles:
            log.info("paused_roles", roles=sorted(paused))
            self._paused_roles = paused
            self._pauses_changed.set()
            self._pauses_changed = trio.Event()
        self._runner.held.stop(orders.unwanted)

    async def run(self) -> None:
        """Work until the drain is requested and the handlers have ended or were cut off.

        Locks are renewed and ends are written until the last handler is through: a drain that stopped renewing first
        would hand its own work to a sibling while it still runs.
        """
        async with trio.open_nursery() as upkeep:
            upkeep.start_soon(self._runner.run_upkeep, name="ends")
            upkeep.start_soon(self._runner.held.keep, name="lock renewal")
            upkeep.start_soon(self._bound_drains, name="bound of drains")
            async with self._drain.bounded() as bounded, trio.open_nursery() as handlers:
                for role, queue in self._queues.items():
                    handlers.start_soon(self._intake, role, queue, handlers, name=f"intake {role}")
            if bounded.cut_off:
                log.warning("handlers_cut_off", seconds=self._drain.seconds)
            upkeep.cancel_scope.cancel()

    async def _bound_drains(self) -> None:
        """Cut off what still runs when a drain from outside has lasted as long as one by a signal may."""
        while True:
            changed = self._drain_changed
            if not self._is_drained:
                await changed.wait()
                continue
            with trio.move_on_after(self._drain.seconds) as bound:
                await changed.wait()
            if bound.cancelled_caught:
                log.warning("handlers_cut_off", seconds=self._drain.seconds)
                self._runner.held.cut_off("cut off by the drain")
                await changed.wait()

    async def _intake(self, role: str, queue: DeliveryQueue, handlers: trio.Nursery) -> None:
        """Fetch what can be run. What was fetched begins in a task of its own, beside the next fetch."""
        while not self._drain.requested:
            if role in self._paused_roles:
                await self._until_drain_or(self._pauses_changed.wait)
                continue
            if (trouble_seconds := self._trouble_until - trio.current_time()) > 0:
                await self._until_drain_or(partial(trio.sleep, trouble_seconds))
            slots = await self._slots.take(FETCH_MAX)
            taken: Sequence[Delivery] = ()
            try:
                # The wait for a slot may have been long.
                if not self._drain.requested and role not in self._paused_roles:
                    taken = await queue.fetch(slots)
            except StorageError as error:
                log.warning("intake_interrupted", queue=queue.name, error=str(error))
                self._trouble_until = trio.current_time() + TROUBLE_SECONDS
            finally:
                # After a lost reply a fetch may find more than it was asked for.
                wanted, surplus = taken[:slots], taken[slots:]
                self._slots.give_back(slots - len(wanted))
            if taken:
                step("intake.after_fetch")
                handlers.start_soon(self._begin, queue, wanted, surplus, handlers, name=f"begin {role}")
            else:
                await self._wait(queue)

    async def _wait(self, queue: DeliveryQueue) -> None:
        """Wait for a delivery; the drain ends the wait. Only this wait may be cancelled, never the fetch (DLV-5)."""
        try:
            await self._until_drain_or(partial(queue.wait, WAIT_SECONDS))
        except StorageError as error:
            log.warning("wait_interrupted", queue=queue.name, error=str(error))
            self._trouble_until = trio.current_time() + TROUBLE_SECONDS

    async def _begin(
        self, queue: DeliveryQueue, wanted: Sequence[Delivery], surplus: Sequence[Delivery], handlers: trio.Nursery
    ) -> None:
        """Begin what may begin, each with a slot of its own, and decline the rest.

        Starting comes first: what PostgreSQL calls begun must have its handler, whatever becomes of the others.
        """
        whole = [delivery for delivery in wanted if delivery.damaged is None]
        declined = [Begun(delivery, "damaged") for delivery in wanted if delivery.damaged is not None]
        declined += [Begun(delivery, "surplus") for delivery in surplus]
        slots = len(wanted)
        try:
            for begun in await self._verdicts(whole):
                if begun.verdict in ("begun", "held") and begun.job is not None and begun.attempt is not None:
                    # The slot goes with the handler, which gives it back.
                    slots -= 1
                    handlers.start_soon(self._run, queue, begun, name=begun.delivery.delivery_id)
                else:
                    declined.append(begun)
        except StorageError as error:
            # PostgreSQL is away: give the deliveries back, instead of letting their locks run out one by one.
            log.warning("begin_interrupted", queue=queue.name, deliveries=len(whole), error=str(error))
            self._trouble_until = trio.current_time() + TROUBLE_SECONDS
            declined += [Begun(delivery, "unbegun") for delivery in whole]
        finally:
            self._slots.give_back(slots)
        await self._decline(queue, declined)

    async def _verdicts(self, deliveries: Sequence[Delivery]) -> Sequence[Begun]:
        if not deliveries:
            return []
        ask = partial(self._ask_to_begin, deliveries)
        try:
            return await again_if_lost(ask)
        except CommitUnknown:
            # Under the same tokens: attempts that did begin answer `held`, and are ours.
            return await again_if_lost(ask)

    async def _run(self, queue: DeliveryQueue, begun: Begun) -> None:
        try:
            if begun.job is not None and begun.attempt is not None:
                await self._runner.run(queue, begun.delivery, begun.job, begun.attempt)
        finally:
            self._slots.give_back()
            if self.is_idle:
                self._became_idle()

    async def _decline(self, queue: DeliveryQueue, declined: Sequence[Begun]) -> None:
        """Answer deliveries that may not run now: their records are ended or put back, the jobs left as they are."""
        if not declined:
            return
        for begun in declined:
            self._observe(Happening.DECLINED, begun.verdict, 1)
            log.info("delivery_declined", delivery_id=begun.delivery.delivery_id, verdict=begun.verdict)
        try:
            await queue.acknowledge_many([_declining(begun) for begun in declined])
        except StorageError as error:
            # Their locks run out, and they are handed out again.
            log.warning("decline_lost", queue=queue.name, deliveries=len(declined), error=str(error))
        step("delivery.after_decline")

    async def _until_drain_or(self, wait: Callable[[], Awaitable[object]]) -> None:
        with unwrapped():
            async with trio.open_nursery() as waits:
                waits.start_soon(self._cancel_on_drain, waits.cancel_scope)
                await wait()
                waits.cancel_scope.cancel()

    async def _cancel_on_drain(self, scope: trio.CancelScope) -> None:
        await self._drain.wait_requested()
        scope.cancel()


def _declining(begun: Begun) -> Acknowledgement:
    delivery, verdict = begun.delivery, begun.verdict
    if verdict in PUT_BACK_SECONDS:
        return Return(delivery, max(begun.wait_seconds, PUT_BACK_SECONDS[verdict]))
    if verdict in DECLINED:
        return Failure(delivery, DECLINED[verdict], retry=False)
    return Completion(delivery)
