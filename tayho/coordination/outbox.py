"""The publisher: due outbox rows become BullMQ records, and published ones are looked after (DLV-3, DLV-4)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from uuid import UUID

from attrs import evolve, frozen

from storage.database import Database, Row
from storage.delivery import DeliveryQueue
from storage.records import Record, RecordState, delivery_id
from tayho.coordination.store import ADVANCE_GENERATION_IF_UNFINISHED, CLAIM_DUE, MARK_PUBLISHED
from tayho.coordination.types import WorkerSettings
from tayho.kernel.steps import step

CLAIM_MAX = 500
# A publisher that dies between claim and mark leaves its rows due again after this.
LEASE_SECONDS = 10
# BullMQ's own tries of one record: past them the delivery check makes a new generation. Bounded, because each try
# doubles the wait.
DELIVERY_ATTEMPTS_MAX = 12
# The wait before the second try of one delivery; BullMQ doubles it from there.
BACKOFF_MILLISECONDS = 1_000


@frozen
class Due:
    """One job that is due to be published, or looked at."""

    job_id: UUID
    role: str
    kind: str
    generation: int
    priority: int

    @classmethod
    def of(cls, row: Row) -> Due:
        return cls(row["job_id"], row["role"], row["kind"], row["generation"], row["priority"])

    def record(self, attempts_max: int) -> Record:
        return Record(
            delivery_id=delivery_id(self.job_id, self.generation),
            name=self.kind,
            data={"job_id": str(self.job_id), "generation": self.generation},
            priority=self.priority,
            attempts=min(attempts_max, DELIVERY_ATTEMPTS_MAX),
            backoff_milliseconds=BACKOFF_MILLISECONDS,
        )


class Publisher:
    """Publishes what is due, for every role of one (chain, environment). Any number may run: they share by leases."""

    def __init__(
        self,
        database: Database,
        queue_of: Callable[[str], DeliveryQueue],
        chain_id: int,
        environment: str,
        settings: WorkerSettings,
    ) -> None:
        self._database = database
        self._queue_of = queue_of
        self._chain_id = chain_id
        self._environment = environment
        self._settings = settings

    async def publish_due(self) -> bool:
        """Publish or check one batch; True when more may be due already.

        Adding under a stable id is idempotent, so a row leased twice is published once. A record that Redis lost is
        added again by the same call. A record that ended in BullMQ while its job did not gets a new generation.
        Raises StoreUnavailable, QueueUnavailable or ReplyLost; the leased rows are due again after the lease.
        """
        async with self._database.connection() as connection:
            rows = await CLAIM_DUE(connection, self._chain_id, self._environment, CLAIM_MAX, LEASE_SECONDS)
        if not rows:
            return False
        step("publish.after_claim")
        due = [Due.of(row) for row in rows]
        ended = await self._add(due)
        if ended:
            renewed = await self._advance(ended)
            await self._add(renewed)
            ended_ids = {one.job_id for one in ended}
            due = [one for one in due if one.job_id not in ended_ids] + renewed
        step("publish.after_add")
        async with self._database.connection() as connection:
            await MARK_PUBLISHED(
                connection,
                [one.job_id for one in due],
                [one.generation for one in due],
                float(self._settings.reconcile_seconds),
            )
        step("publish.after_mark")
        return len(rows) == CLAIM_MAX

    async def _add(self, due: Sequence[Due]) -> list[Due]:
        """Add a record for each, one round trip a role; return those whose record will not be handed out any more."""
        ended: list[Due] = []
        for role in sorted({one.role for one in due}):
            of_role = [one for one in due if one.role == role]
            records = [one.record(self._settings.attempts_max) for one in of_role]
            states = await self._queue_of(role).publish_many(records)
            # MISSING right after the adding: its hash is there and its place in the queue is not, so BullMQ will never
            # hand it out, and takes no second one under this id.
            gone = [state.is_terminal or state is RecordState.MISSING for state in states]
            ended += [one for one, is_gone in zip(of_role, gone, strict=True) if is_gone]
        return ended

    async def _advance(self, ended: Sequence[Due]) -> list[Due]:
        """Advance the generation of the jobs that are still unfinished; the others need no delivery."""
        by_id = {one.job_id: one for one in ended}
        async with self._database.connection() as connection:
            rows = await ADVANCE_GENERATION_IF_UNFINISHED(
                connection, list(by_id), [one.generation for one in by_id.values()]
            )
        return [evolve(by_id[row["job_id"]], generation=row["generation"]) for row in rows]
