"""Retention: what ended long ago gives up its documents and its attempts; its key stays taken for ever (DLV-12)."""

from __future__ import annotations

from uuid import UUID

import structlog
import trio

from storage.database import Database
from storage.rows import value_from
from tayho.coordination import store
from tayho.coordination.types import Archived
from tayho.kernel.steps import step

log = structlog.get_logger("tayho.retention")

# One statement's worth: a few milliseconds, and its rows are locked no longer.
PAGE = 500
# The walk along all jobs starts over so often, for those that it had to pass by.
WALK_SECONDS = 7 * 24 * 3600
# What is dead or quarantined waits for a person: so many times as long as the rest.
SET_ASIDE_FACTOR = 4
# Of a job that goes on for ever. Its number grows on.
ATTEMPTS_KEPT = 100
# After each page it rests for so many times as long as that took.
REST_FACTOR = 4
FIRST_ID = UUID(int=0)


class Retention:
    """The retention of one (chain, environment). Any number may run: whoever holds the cursor's row makes the page."""

    def __init__(self, database: Database, chain_id: int, environment: str, days: int) -> None:
        """`days`: how long after its end a job is kept whole."""
        self._database = database
        self._chain_id = chain_id
        self._environment = environment
        self._days = days
        self._has_cursor = False
        # Where the next look at open jobs begins. In memory: to begin anew costs nothing.
        self._trimmed_to = FIRST_ID

    async def turn(self) -> bool:
        """Archive one page and trim one page; True when there are more to archive. Raises StorageError.

        Where nothing is to be done, that is one look at the next id and one at a page of the outbox.
        """
        began_at = trio.current_time()
        archived = await self.archive_page()
        await self.trim_page()
        if archived is not None and archived.is_through:
            await self.reap_workers()
        if archived is None or not archived.is_more:
            return False
        await trio.sleep(REST_FACTOR * (trio.current_time() - began_at))
        return True

    async def archive_page(self) -> Archived | None:
        """Go on with the walk by one page; None while another replica does."""
        async with self._database.transaction() as tx:
            await store.AS_RETENTION(tx)
            if not self._has_cursor:
                await store.KEEP_CURSOR(tx, self._chain_id, self._environment)
            row = await store.ARCHIVE_PAGE(
                tx,
                self._chain_id,
                self._environment,
                self._days,
                SET_ASIDE_FACTOR * self._days,
                PAGE,
                float(WALK_SECONDS),
            )
        step("retention.after_archive")
        self._has_cursor = True
        if row is None:
            return None
        answer = value_from(Archived, row)
        if answer.archived:
            log.info("archived", jobs=answer.archived)
        return answer

    async def trim_page(self) -> int:
        """Forget the oldest attempts of open jobs that have had very many; how many were forgotten."""
        async with self._database.transaction() as tx:
            await store.AS_RETENTION(tx)
            row = await store.TRIM_PAGE(tx, self._chain_id, self._environment, self._trimmed_to, PAGE, ATTEMPTS_KEPT)
        step("retention.after_trim")
        if row is None:
            return 0
        self._trimmed_to = row["next_from"] or FIRST_ID
        if row["trimmed"]:
            log.info("attempts_trimmed", attempts=row["trimmed"])
        return row["trimmed"]

    async def reap_workers(self) -> int:
        """Forget workers that are gone for long and that no attempt names; how many there were."""
        async with self._database.connection() as connection:
            reaped = await store.REAP_WORKERS(connection, self._chain_id, self._environment, self._days)
        step("retention.after_reap")
        if reaped:
            log.info("workers_reaped", workers=reaped)
        return reaped
