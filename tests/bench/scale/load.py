"""A steady load on PostgreSQL as publisher and worker make it, without Redis and without handlers, each step timed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from itertools import count
from typing import cast
from uuid import UUID

import trio
from attrs import define, field, frozen

from nursery.drain import Drain
from storage.database import Database
from storage.delivery import DeliveryQueue
from storage.records import Delivery, Record, RecordState, delivery_id
from tayho.coordination import store
from tayho.coordination.attempts import End, Ends, begin
from tayho.coordination.module import Coordination
from tayho.coordination.outbox import Publisher
from tayho.coordination.types import NewJob, WorkerSettings
from tayho.coordination.workers import WorkerRow
from tayho.kernel.ids import new_id

CHAIN_ID = 31337
ENVIRONMENT = "bench"
ROLE = "automation"
KIND = "bench.no_op"
BATCH = 100
# Every tenth job has a limit key, one of so many.
LIMITED_SHARE = 10
KEYS = 20
SETTINGS = WorkerSettings(
    roles=(ROLE,), concurrency=64, lock_seconds=30, reconcile_seconds=60, attempts_max=8, poll_milliseconds=250
)
# The statements of the publish path, by the figures that they make up.
PUBLISHING = {
    "DUE": "claim_due",
    "CLAIM_DUE": "claim_due",
    "WAITING_KEYS": "claim_limited",
    "REGISTER_LIMITS": "claim_limited",
    "LOCK_LIMITS": "claim_limited",
    "CLAIM_LIMITED": "claim_limited",
    "MARK_PUBLISHED": "mark_published",
}
# What a look at the whole index ends with.
WHOLE = (None, None)
STEPS = ("enqueue", "claim_due", "claim_limited", "mark_published", "begin", "end")


class InstantQueue:
    """Takes every record and has none: what Redis costs is not asked here."""

    async def publish_many(self, records: Sequence[Record]) -> list[RecordState]:
        await trio.lowlevel.checkpoint()
        return [RecordState.WAITING for _ in records]

    async def add_many(self, records: Sequence[Record]) -> None:
        await self.publish_many(records)

    async def prioritize_many(self, priorities: Sequence[tuple[str, int]]) -> None:
        await trio.lowlevel.checkpoint()


@frozen
class Timed:
    """A bound statement that adds its time to a figure."""

    statement: Callable[..., Awaitable[object]]
    name: str
    spent: dict[str, float]

    async def __call__(self, *arguments: object) -> object:
        began = trio.current_time()
        answer = await self.statement(*arguments)
        if arguments[-2:] == WHOLE:
            # Made beside the publishing, and told by itself.
            return answer
        self.spent[self.name] = self.spent.get(self.name, 0) + trio.current_time() - began
        return answer


@define
class Load:
    """Rounds of enqueue, publish, begin and end, each of a batch of jobs; the seconds of each step are kept."""

    database: Database
    worker_id: UUID
    seconds: dict[str, list[float]] = field(factory=lambda: {name: list[float]() for name in STEPS})
    # What looking behind the frontier cost, and when.
    looks_behind: list[float] = field(factory=list[float])
    _numbers: count[int] = field(factory=count)
    _series: str = field(factory=lambda: new_id().hex)
    _spent: dict[str, float] = field(factory=dict[str, float])

    @classmethod
    async def of(cls, database: Database) -> Load:
        row = WorkerRow(database, new_id(), Drain(seconds=1))
        await row.register("bench", CHAIN_ID, ENVIRONMENT, [ROLE], "0")
        return cls(database, row.worker_id)

    def forget(self) -> None:
        """Begin to measure anew."""
        for figures in (*self.seconds.values(), self.looks_behind):
            figures.clear()

    async def run(self, *, rounds: int | None = None, seconds: float = float("inf"), period_seconds: float = 0) -> None:
        """So many rounds, or as many as fit into the time, one each period at most."""
        publisher = self._publisher()
        coordination = Coordination(self.database, self._queue_of, CHAIN_ID, ENVIRONMENT, SETTINGS)
        ends_at = trio.current_time() + seconds
        async with trio.open_nursery() as beside:
            beside.start_soon(self._look_behind, publisher)
            for number in count():
                if number == rounds or trio.current_time() >= ends_at:
                    break
                next_at = trio.current_time() + period_seconds
                await self._round(coordination, publisher)
                await trio.sleep_until(next_at)
            beside.cancel_scope.cancel()

    async def _round(self, coordination: Coordination, publisher: Publisher) -> None:
        jobs = [self._new_job(number) for number, _ in zip(self._numbers, range(BATCH), strict=False)]
        began = trio.current_time()
        async with self.database.transaction() as tx:
            job_ids = [one.job_id for one in await coordination.enqueue_many(jobs, tx=tx)]
        self._note("enqueue", began)
        await self._publish(publisher)
        deliveries = [
            Delivery(delivery_id(job_id, 1), new_id().hex, KIND, {}, 0, 8, 0, None, None, {}) for job_id in job_ids
        ]
        began = trio.current_time()
        begun = await begin(
            self.database,
            self.database,
            deliveries,
            worker_id=self.worker_id,
            attempts_max=SETTINGS.attempts_max,
            chain_id=CHAIN_ID,
            environment=ENVIRONMENT,
            kinds=[KIND],
        )
        self._note("begin", began)
        attempts = [one.attempt for one in begun if one.verdict == "begun" and one.attempt is not None]
        if len(attempts) != BATCH:
            raise AssertionError(f"{len(attempts)} of {BATCH} attempts began: {[one.verdict for one in begun]}")
        began = trio.current_time()
        await Ends(self.database, SETTINGS.attempts_max).end_all_if_current(
            [End(attempt, "completed", {"result": None}) for attempt in attempts]
        )
        self._note("end", began)

    async def _publish(self, publisher: Publisher) -> None:
        self._spent.clear()
        await publisher.publish_due()
        for name, seconds in self._spent.items():
            self.seconds[name].append(seconds)

    async def _look_behind(self, publisher: Publisher) -> None:
        while True:
            began = trio.current_time()
            await publisher.look_behind()
            if trio.current_time() - began > 0:
                self.looks_behind.append(trio.current_time() - began)
            await trio.sleep(1)

    def _publisher(self) -> Publisher:
        for statement, name in PUBLISHING.items():
            bound = getattr(store, statement)
            original = bound.statement if isinstance(bound, Timed) else bound
            setattr(store, statement, Timed(original, name, self._spent))
        return Publisher(self.database, self._queue_of, CHAIN_ID, ENVIRONMENT, SETTINGS)

    def _queue_of(self, role: str) -> DeliveryQueue:
        del role
        return cast("DeliveryQueue", InstantQueue())

    def _new_job(self, number: int) -> NewJob:
        limit_key = f"tenant-{number // LIMITED_SHARE % KEYS}" if number % LIMITED_SHARE == 0 else None
        return NewJob(KIND, ROLE, f"{self._series}-{number}", {"n": number}, limit_key=limit_key)

    def _note(self, name: str, began: float) -> None:
        self.seconds[name].append(trio.current_time() - began)
