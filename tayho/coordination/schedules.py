"""The scheduler: one job a slot, whichever replica looks first, on PostgreSQL's clock (DLV-13)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime

import structlog
import trio

from nursery.drain import Drain
from storage.codecs import json_text
from storage.database import Connection, Database
from storage.errors import Refused
from tayho.coordination import store
from tayho.coordination.producing import enqueue_in
from tayho.coordination.schedule_declarations import document_of, job_of, slot_text
from tayho.coordination.schedule_rules import Due, due_slots, next_slot
from tayho.coordination.types import Declared, IdempotencyConflict
from tayho.kernel.steps import step

log = structlog.get_logger("tayho.scheduler")

# The longest sleep: how soon a process notices that a schedule has been given up by those who declared it otherwise.
LOOK_SECONDS_MAX = 10.0
# Waking a moment before the slot must not become a loop without a pause.
LOOK_SECONDS_MIN = 0.05
CONFIRM_SECONDS = 10.0
# A declaration whose processes have said nothing for so long is taken over by one that differs.
SILENT_SECONDS_MAX = 60.0


class Scheduler:
    """The schedules of this process's kinds, for one (chain, environment). Any number may run: PostgreSQL decides.

    Nothing of it reads this machine's clock: what is due, what is late and what is next are PostgreSQL's time.
    """

    def __init__(
        self,
        database: Database,
        chain_id: int,
        environment: str,
        declared: Sequence[Declared],
        wake_publishers: Callable[[], Awaitable[None]],
    ) -> None:
        self._database = database
        self._chain_id = chain_id
        self._environment = environment
        self._declared = {one.schedule.name: one for one in declared}
        self._documents = {name: json_text(document_of(one)) for name, one in self._declared.items()}
        self._wake_publishers = wake_publishers
        self._is_declared = False
        # Those that another release fires at the moment; told once.
        self._foreign: frozenset[str] = frozenset()

    async def tick(self) -> float:
        """Fire what is due; the seconds until the next look.

        Any call may be the first, the last, or one of many at the same moment. Raises StorageError: the next call
        finds out what became of this one.
        """
        if not self._is_declared:
            await self._declare()
        await self._hold()
        async with self._database.connection() as connection:
            rows = await store.OUR_SCHEDULES(connection, *self._asked())
        self._tell_foreign(self._declared.keys() - {row["name"] for row in rows})
        fired = 0
        seconds = LOOK_SECONDS_MAX
        for row in rows:
            one = self._declared[row["name"]]
            decided_until, now = row["decided_until"], row["now"]
            due = due_slots(one.schedule, decided_until, now)
            if due is not None:
                fired += await self._decide(one, decided_until, due)
            coming = next_slot(one.schedule, now if due is None else max(now, due.decided_until))
            if coming is not None:
                seconds = min(seconds, (coming - now).total_seconds())
        if fired:
            await self._wake_publishers()
        return max(seconds, LOOK_SECONDS_MIN)

    async def tick_and_sleep(self, drain: Drain) -> None:
        """One look, and the sleep until the next, which the drain ends early."""
        with trio.move_on_after(await self.tick()):
            await drain.wait_requested()

    async def _declare(self) -> None:
        async with self._database.connection() as connection:
            begun = await store.DECLARE_SCHEDULES(connection, *self._asked())
        step("schedule.after_declare")
        self._is_declared = True
        for row in begun:
            log.info("schedule_begins", schedule=row["name"], declaration=self._documents[row["name"]])

    async def _hold(self) -> None:
        async with self._database.connection() as connection:
            held = await store.HOLD_SCHEDULES(connection, *self._asked(), CONFIRM_SECONDS, SILENT_SECONDS_MAX)
        step("schedule.after_hold")
        for row in held:
            if row["is_taken_over"]:
                log.warning("schedule_taken_over", schedule=row["name"], declaration=self._documents[row["name"]])

    async def _decide(self, one: Declared, decided_until: datetime, due: Due) -> int:
        """The number of jobs that a decision of ours made. What PostgreSQL refuses stops its own schedule alone."""
        try:
            is_ours = await self._decide_if_undecided(one, decided_until, due)
        except Refused as error:
            log.warning("schedule_refused", schedule=one.schedule.name, error=str(error))
            return 0
        if is_ours and due.skipped is not None:
            first, last = map(slot_text, due.skipped)
            rule = one.schedule.catch_up
            log.warning("schedule_slots_skipped", schedule=one.schedule.name, first=first, last=last, catch_up=rule)
        return len(due.fire) if is_ours else 0

    async def _decide_if_undecided(self, one: Declared, decided_until: datetime, due: Due) -> bool:
        """Record the jobs and how far the schedule is decided, together; False when another has decided it."""
        name = one.schedule.name
        async with self._database.transaction() as tx:
            changed = await store.ADVANCE_SCHEDULE_IF_UNDECIDED(
                tx,
                self._chain_id,
                self._environment,
                name,
                self._documents[name],
                decided_until,
                due.decided_until,
                due.fire[-1] if due.fire else None,
            )
            if changed:
                for slot in due.fire:
                    await self._enqueue(tx, one, slot)
        step("schedule.after_fire")
        return bool(changed)

    async def _enqueue(self, tx: Connection, one: Declared, slot: datetime) -> None:
        try:
            await enqueue_in(tx, self._chain_id, self._environment, [job_of(one, slot)])
        except IdempotencyConflict as error:
            # Somebody has used the slot's key for another request. The slot has its job; to try for ever helps nobody.
            log.warning("schedule_slot_taken", schedule=one.schedule.name, slot=slot_text(slot), error=str(error))

    def _asked(self) -> tuple[int, str, list[str], list[str]]:
        return self._chain_id, self._environment, list(self._documents), list(self._documents.values())

    def _tell_foreign(self, names: set[str]) -> None:
        for name in sorted(names - self._foreign):
            log.warning("schedule_declared_otherwise", schedule=name, hint="a process that started later fires it")
        self._foreign = frozenset(names)
