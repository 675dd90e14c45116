"""The deliveries that this process holds, and the renewal of their locks."""

from __future__ import annotations

from collections.abc import Collection, Generator
from contextlib import contextmanager
from uuid import UUID

import structlog
import trio
from attrs import define, field

from storage.delivery import DeliveryQueue
from storage.errors import StorageError
from storage.records import Delivery
from tayho.coordination.types import Happening, Observe

log = structlog.get_logger("tayho.worker")

RENEWALS_PER_LOCK = 3


@define(eq=False)
class Held:
    """One delivery in the hands of one handler."""

    queue: DeliveryQueue
    delivery: Delivery
    job_id: UUID
    renewed_at: float = field(factory=trio.current_time)
    # Cancels the handler alone; its end is still written afterwards.
    scope: trio.CancelScope = field(factory=trio.CancelScope)
    # Why the handler was cancelled, or None.
    loss: str | None = None
    # The end is written and the acknowledgement under way: that the lock is gone means nothing any more.
    is_acknowledging: bool = False

    def lose(self, reason: str) -> None:
        if self.loss is None:
            self.loss = reason
            self.scope.cancel()


class HeldDeliveries:
    """Renews the locks of all held deliveries from one task; a handler whose lock is lost is cancelled (DLV-6)."""

    def __init__(self, lock_seconds: int, observe: Observe) -> None:
        self._observe = observe
        self._lock_seconds = lock_seconds
        self._held: dict[str, Held] = {}

    def __len__(self) -> int:
        return len(self._held)

    @contextmanager
    def holding(self, queue: DeliveryQueue, delivery: Delivery, job_id: UUID) -> Generator[Held]:
        """Keep the delivery's lock renewed inside the block."""
        held = Held(queue, delivery, job_id)
        self._held[delivery.token] = held
        try:
            yield held
        finally:
            del self._held[delivery.token]

    @property
    def job_ids(self) -> list[UUID]:
        """The jobs that run here now."""
        return [held.job_id for held in self._held.values()]

    def cut_off(self, reason: str) -> None:
        """Cancel every handler that runs now; their ends are still written."""
        for held in self._held.values():
            held.lose(reason)

    def stop(self, unwanted: Collection[UUID]) -> None:
        """Cancel the handlers of these jobs; their ends are still written."""
        for held in self._held.values():
            if held.job_id in unwanted:
                held.lose("cancelled by an operator")

    async def keep(self) -> None:
        """Renew until cancelled. One round trip a queue, whatever the number of handlers."""
        while True:
            await trio.sleep(self._lock_seconds / RENEWALS_PER_LOCK)
            by_queue: dict[int, list[Held]] = {}
            for held in self._held.values():
                if held.is_acknowledging:
                    continue
                by_queue.setdefault(id(held.queue), []).append(held)
            for of_queue in by_queue.values():
                await self._renew(of_queue)

    async def _renew(self, of_queue: list[Held]) -> None:
        began_at = trio.current_time()
        try:
            lost = await of_queue[0].queue.extend([held.delivery for held in of_queue])
        except StorageError as error:
            log.warning("lock_renewal_failed", held=len(of_queue), error=str(error))
            for held in of_queue:
                # Nobody could renew it for a whole lock: by now it has run out wherever Redis lives on.
                if began_at - held.renewed_at >= self._lock_seconds:
                    held.lose("the delivery lock could not be renewed")
            return
        for held in of_queue:
            if held.is_acknowledging:
                continue
            if held.delivery.delivery_id in lost:
                self._observe(Happening.LOCK_LOST, "", 1)
                log.warning("delivery_lock_lost", delivery_id=held.delivery.delivery_id)
                held.lose("the delivery lock was lost")
            else:
                held.renewed_at = began_at
