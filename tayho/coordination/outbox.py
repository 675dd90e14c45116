"""The publisher: due outbox rows become BullMQ records, and published ones are looked after (DLV-3, DLV-4)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby
from uuid import UUID

from attrs import evolve, frozen

from storage.database import Asks, Connection, Database, Row
from storage.delivery import DeliveryQueue
from storage.records import Record, RecordState, delivery_id
from tayho.coordination import store
from tayho.coordination.observing import observe_nothing
from tayho.coordination.types import Happening, Observe, WorkerSettings
from tayho.kernel.steps import step

CLAIM_MAX = 500
# Limit keys that one poll decides over.
KEYS_MAX = 200
# A publisher that dies between claim and mark leaves its rows due again after this.
LEASE_SECONDS = 10
# A paused row is looked at again after this; to resume makes it due at once.
PAUSED_SECONDS = 600
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
    # Aged: what its own number has become by waiting.
    priority: int
    has_aged: bool
    # Never published: there is nothing to look at.
    is_first: bool
    # By PostgreSQL's clock it may run now.
    may_run: bool

    @classmethod
    def of(cls, row: Row) -> Due:
        return cls(
            row["job_id"],
            row["role"],
            row["kind"],
            row["generation"],
            row["priority"],
            row["has_aged"],
            row["is_first"],
            row["may_run"],
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
        own: Asks | None = None,
        observe: Observe = observe_nothing,
    ) -> None:
        """`own` runs what is asked at every poll; without it, a connection is lent each time."""
        self._observe = observe
        self._database = database
        self._own = own or database
        self._queue_of = queue_of
        self._chain_id = chain_id
        self._environment = environment
        self._settings = settings
        # The last key of the walk along all limit keys; empty begins anew.
        self._walked_to = ""

    async def publish_due(self) -> bool:
        """Publish or check one batch; True when more may be due already.

        Adding under a stable id is idempotent, so a row leased twice is published once. A record that Redis lost is
        added again by the same call. A record that ended in BullMQ while its job did not gets a new generation.
        Raises StoreUnavailable, QueueUnavailable or ReplyLost; the leased rows are due again after the lease.
        """
        rows, is_any_limited = await self._own.run(self._look_and_claim)
        limited = await self._claim_limited() if is_any_limited else []
        if not rows and not limited:
            return False
        step("publish.after_claim")
        await self._publish([Due.of(row) for row in (*rows, *limited) if not row["is_paused"]])
        return len(rows) == CLAIM_MAX or bool(limited)

    async def _look_and_claim(self, connection: Connection) -> tuple[list[Row], bool]:
        """What was due and is leased now, and whether anything is due that a limit may hold back."""
        look = await store.DUE(connection, self._chain_id, self._environment)
        if look is None or not look["unlimited"]:
            return [], look is not None and look["limited"]
        rows = await store.CLAIM_DUE(
            connection, self._chain_id, self._environment, CLAIM_MAX, float(LEASE_SECONDS), float(PAUSED_SECONDS)
        )
        return rows, look["limited"]

    async def _claim_limited(self) -> list[Row]:
        """Claim what the limits have room for now; the rest stays, unpublished, and is asked for again next time."""
        async with self._database.transaction() as tx:
            found = await store.WAITING_KEYS(tx, self._chain_id, self._environment, self._walked_to, KEYS_MAX)
            walked = [row["limit_key"] for row in found if row["is_walked"]]
            # Fewer than a page: the walk is through, and begins anew.
            self._walked_to = walked[-1] if len(walked) == KEYS_MAX else ""
            keys = [row["limit_key"] for row in found]
            await store.REGISTER_LIMITS(tx, self._chain_id, self._environment, keys)
            locked = await store.LOCK_LIMITS(tx, self._chain_id, self._environment, keys)
            return await store.CLAIM_LIMITED(
                tx,
                self._chain_id,
                self._environment,
                [row["limit_key"] for row in locked],
                float(LEASE_SECONDS),
                float(PAUSED_SECONDS),
                self._settings.fair_window,
                CLAIM_MAX,
            )

    async def _publish(self, due: list[Due]) -> None:
        ended = await self._add(due)
        if ended:
            renewed = await self._advance(ended)
            await self._add(renewed)
            ended_ids = {one.job_id for one in ended}
            due = [one for one in due if one.job_id not in ended_ids] + renewed
        step("publish.after_add")
        job_ids, generations = [one.job_id for one in due], [one.generation for one in due]
        seconds = float(self._settings.reconcile_seconds)
        await self._own.run(lambda connection: store.MARK_PUBLISHED(connection, job_ids, generations, seconds))
        step("publish.after_mark")
        first = sum(one.is_first for one in due)
        self._observe(Happening.PUBLISHED, "first", first)
        self._observe(Happening.PUBLISHED, "again", len(due) - first)

    async def _add(self, due: Sequence[Due]) -> list[Due]:
        """Add a record for each, one round trip a role; return those whose record will not be handed out any more."""
        ended: list[Due] = []
        for role, grouped in groupby(sorted(due, key=lambda one: one.role), key=lambda one: one.role):
            of_role = list(grouped)
            queue = self._queue_of(role)
            for start in range(0, len(of_role), CLAIM_MAX):
                ended += await self._add_to(queue, of_role[start : start + CLAIM_MAX])
        return ended

    async def _add_to(self, queue: DeliveryQueue, due: Sequence[Due]) -> list[Due]:
        await queue.add_many([self._record(one) for one in due if one.is_first])
        published = [one for one in due if not one.is_first]
        states = await queue.publish_many([self._record(one) for one in published])
        found = list(zip(published, states, strict=True))
        aged = [
            (delivery_id(one.job_id, one.generation), one.priority)
            for one, state in found
            if one.has_aged and state is RecordState.WAITING
        ]
        if aged:
            await queue.prioritize_many(aged)
            step("publish.after_ageing")
        # Held back by BullMQ although PostgreSQL calls it due: the clock that delayed it is ahead.
        late = [
            delivery_id(one.job_id, one.generation)
            for one, state in found
            if one.may_run and state is RecordState.DELAYED
        ]
        if late:
            await queue.promote_many(late)
            step("publish.after_promotion")
        # MISSING right after the adding: its hash is there and its place in the queue is not, so BullMQ will never
        # hand it out, and takes no second one under this id.
        return [one for one, state in found if state.is_terminal or state is RecordState.MISSING]

    def _record(self, one: Due) -> Record:
        return Record(
            delivery_id=delivery_id(one.job_id, one.generation),
            name=one.kind,
            data={"job_id": str(one.job_id), "generation": one.generation},
            priority=one.priority,
            attempts=min(self._settings.attempts_max, DELIVERY_ATTEMPTS_MAX),
            backoff_milliseconds=BACKOFF_MILLISECONDS,
        )

    async def _advance(self, ended: Sequence[Due]) -> list[Due]:
        """Advance the generation of the jobs that are still unfinished; the others need no delivery."""
        by_id = {one.job_id: one for one in ended}
        self._observe(Happening.GENERATION_ADVANCED, "", len(ended))
        async with self._database.connection() as connection:
            rows = await store.ADVANCE_GENERATION_IF_UNFINISHED(
                connection, list(by_id), [one.generation for one in by_id.values()]
            )
        return [evolve(by_id[row["job_id"]], generation=row["generation"]) for row in rows]
