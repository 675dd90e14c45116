"""The publisher: due outbox rows become BullMQ records, and published ones are looked after (DLV-3, DLV-4)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from itertools import groupby
from uuid import UUID

import trio
from attrs import evolve, frozen

from storage.database import Asks, Connection, Database, Row
from storage.delivery import DeliveryQueue
from storage.records import Record, RecordState, delivery_id
from storage.rows import value_from
from tayho.coordination import store
from tayho.coordination.frontier import BEHIND_SECONDS_MAX, Frontier, pause_seconds
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


@frozen
class Look:
    """What is due: the earliest due times of rows without and with a limit before them, and when that was."""

    looked_at: datetime
    unlimited_from: datetime | None
    limited_from: datetime | None


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
        self._unlimited = Frontier()
        self._limited = Frontier()
        self._look_behind_at = 0.0

    async def publish_due(self) -> bool:
        """Publish or check one batch; True when more may be due already.

        Adding under a stable id is idempotent, so a row leased twice is published once. A record that Redis lost is
        added again by the same call. A record that ended in BullMQ while its job did not gets a new generation.
        Raises StoreUnavailable, QueueUnavailable or ReplyLost; the leased rows are due again after the lease.
        """
        rows, look = await self._own.run(self._look_and_claim)
        limited = await self._claim_limited(look, look.limited_from) if look.limited_from is not None else []
        # The first row that waits for room stays in the way of every look; before it there is none.
        self._limited.move(look.limited_from or look.looked_at)
        # The keys beyond this page have had no look yet: they must not wait a poll a page.
        is_walking = look.limited_from is not None and bool(self._walked_to)
        if not rows and not limited:
            return is_walking
        step("publish.after_claim")
        await self._publish([Due.of(row) for row in (*rows, *limited) if not row["is_paused"]])
        return len(rows) == CLAIM_MAX or bool(limited) or is_walking

    async def _look_and_claim(self, connection: Connection) -> tuple[list[Row], Look]:
        """What was due and is leased now, and what the look at all that is due told."""
        look = await self._look(connection, self._unlimited.begin(), self._limited.begin())
        return await self._claim_due(connection, look), look

    async def look_behind(self) -> bool:
        """Look, when it is time, for due rows that were committed behind where `publish_due` looks.

        True where there are some: the next `publish_due` then looks at everything. Such rows come from transactions
        that stayed open for long after their enqueue, from run-at times in the past, from a publisher that died over
        its claim. Raises StoreUnavailable.
        """
        if trio.current_time() < self._look_behind_at:
            return False
        began_at = trio.current_time()
        async with self._database.connection() as connection:
            look = await self._look(connection, None, None)
        self._look_behind_at = trio.current_time() + pause_seconds(trio.current_time() - began_at)
        missed = [
            frontier
            for frontier, due_from in ((self._unlimited, look.unlimited_from), (self._limited, look.limited_from))
            if frontier.is_ahead_of(due_from)
        ]
        for frontier in missed:
            frontier.look_at_the_whole()
        return bool(missed)

    async def _look(
        self, connection: Connection, unlimited_from: datetime | None, limited_from: datetime | None
    ) -> Look:
        row = await store.DUE(connection, self._chain_id, self._environment, unlimited_from, limited_from)
        if row is None:
            raise AssertionError("a SELECT without FROM gives a row")
        return value_from(Look, row)

    async def _claim_due(self, connection: Connection, look: Look) -> list[Row]:
        if look.unlimited_from is None:
            self._unlimited.move(look.looked_at)
            return []
        rows = await store.CLAIM_DUE(
            connection,
            self._chain_id,
            self._environment,
            CLAIM_MAX,
            float(LEASE_SECONDS),
            float(PAUSED_SECONDS),
            look.unlimited_from,
        )
        is_more = len(rows) == CLAIM_MAX
        self._unlimited.move(max(row["was_due_at"] for row in rows) if is_more else look.looked_at)
        return rows

    async def _claim_limited(self, look: Look, limited_from: datetime) -> list[Row]:
        """Claim what the limits have room for now; the rest stays, unpublished, and is asked for again next time.

        The keys share one page, so that a batch under one lease stays small however many keys have room.
        """
        async with self._database.transaction() as tx:
            found = await store.WAITING_KEYS(
                tx, self._chain_id, self._environment, self._walked_to, KEYS_MAX, limited_from
            )
            walked = [row["limit_key"] for row in found if row["is_walked"]]
            # Fewer than a page: the walk is through, and begins anew.
            self._walked_to = walked[-1] if len(walked) == KEYS_MAX else ""
            keys = [row["limit_key"] for row in found]
            await store.REGISTER_LIMITS(tx, self._chain_id, self._environment, keys)
            locked = await store.LOCK_LIMITS(tx, self._chain_id, self._environment, keys)
            if not locked:
                return []
            return await store.CLAIM_LIMITED(
                tx,
                self._chain_id,
                self._environment,
                [row["limit_key"] for row in locked],
                float(LEASE_SECONDS),
                float(PAUSED_SECONDS),
                self._settings.fair_window,
                max(CLAIM_MAX // len(locked), 1),
                limited_from,
                # What was due before it, and could not be claimed because it was locked, is found behind before then.
                (look.unlimited_from or look.looked_at) - BEHIND_SECONDS_MAX * timedelta(seconds=2),
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
