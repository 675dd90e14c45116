"""Pauses and limits: what holds work back, who set it and why (DLV-15)."""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

from attrs import asdict

from storage.database import Connection, Database
from storage.rows import value_from
from tayho.coordination import store
from tayho.coordination.control.types import Deed, Limit, LimitLine, Pause, RoleBacklog
from tayho.coordination.waking import wake
from tayho.kernel.json_document import Json
from tayho.kernel.steps import step

# Outbox rows that one transaction of a resumption looks at.
PAGE_MAX = 2_000
_BEFORE_ALL = UUID(int=0)


class Throttles:
    """The pauses and limits of one (chain, environment). Needs a database alone.

    Whatever changes something may raise StoreUnavailable, with nothing done, and CommitUnknown: asking again is right.
    """

    def __init__(self, database: Database, chain_id: int, environment: str) -> None:
        self._database = database
        self._chain_id = chain_id
        self._environment = environment

    async def pause(self, role: str, deed: Deed, *, kind: str = "") -> bool:
        """Let no new work of the role, or of one kind of it, begin; False where it was paused already.

        What runs goes on, and so does a job whose nonce is taken: its lane waits for it.
        """
        async with self._database.transaction() as tx:
            began = await store.PAUSE_UNLESS_PAUSED(
                tx, self._chain_id, self._environment, role, kind, deed.reason, deed.actor
            )
            if began:
                await self._record(tx, "pause", deed, {"role": role, "kind": kind})
        step("control.after_pause")
        await wake(self._database, store.WAKE_WORKERS)
        return bool(began)

    async def resume(self, role: str, deed: Deed, *, kind: str = "") -> bool:
        """End the pause, and let what it put off be looked at now; False where there was no pause.

        Called again after a failure, it does what was left.
        """
        async with self._database.transaction() as tx:
            ended = await store.END_PAUSE(tx, self._chain_id, self._environment, role, kind)
            if ended:
                await self._record(tx, "resume", deed, {"role": role, "kind": kind})
        step("control.after_resume")
        await wake(self._database, store.WAKE_WORKERS)
        await self._make_due(role, kind)
        return bool(ended)

    async def _make_due(self, role: str, kind: str) -> None:
        after: UUID | None = _BEFORE_ALL
        while after is not None:
            async with self._database.connection() as connection:
                page = await store.MAKE_PAGE_DUE(
                    connection, self._chain_id, self._environment, role, kind, after, PAGE_MAX
                )
            step("control.after_resumed_page")
            if page is not None and page["freed"]:
                await wake(self._database, store.WAKE)
            after = None if page is None or page["looked_at"] < PAGE_MAX else page["last_job_id"]

    async def list_pauses(self) -> list[Pause]:
        """What is paused now."""
        async with self._database.connection() as connection:
            rows = await store.LIST_PAUSES(connection, self._chain_id, self._environment)
        return [value_from(Pause, row) for row in rows]

    async def backlog_by_role(self) -> list[RoleBacklog]:
        """What each role that has jobs has before it. Reads the whole outbox: for people, not for a hot path."""
        async with self._database.connection() as connection:
            rows = await store.BACKLOG_BY_ROLE(connection, self._chain_id, self._environment)
        return [value_from(RoleBacklog, row) for row in rows]

    async def set_limit(self, limit_key: str, limit: Limit, deed: Deed) -> None:
        """Give the key these numbers and no others. What is published already counts, and is not called back."""
        async with self._database.transaction() as tx:
            await store.PUT_LIMIT(
                tx,
                self._chain_id,
                self._environment,
                limit_key,
                limit.concurrent_max,
                limit.rate_max,
                limit.rate_seconds,
            )
            await self._record(tx, "limit", deed, {"limit_key": limit_key, **asdict(limit)})
        step("control.after_limit")
        await wake(self._database, store.WAKE)

    async def remove_limit(self, limit_key: str, deed: Deed) -> bool:
        """Leave the key its fair share alone; False where it had no number."""
        async with self._database.transaction() as tx:
            dropped = await store.DROP_LIMIT(tx, self._chain_id, self._environment, limit_key)
            had_numbers = any(row["had_numbers"] for row in dropped)
            if had_numbers:
                await self._record(tx, "limit", deed, {"limit_key": limit_key, "removed": True})
        step("control.after_limit_removed")
        await wake(self._database, store.WAKE)
        return had_numbers

    async def list_limits(self, *, lines_max: int = 1_000) -> list[LimitLine]:
        """The keys that have numbers or jobs, those with the most waiting jobs first."""
        async with self._database.connection() as connection:
            rows = await store.LIST_LIMITS(connection, self._chain_id, self._environment, lines_max)
        return [value_from(LimitLine, row) for row in rows]

    async def _record(self, tx: Connection, action: str, deed: Deed, detail: Mapping[str, Json]) -> None:
        whole = {**detail, "reason": deed.reason}
        await store.RECORD_ACTION(tx, self._chain_id, self._environment, action, deed.actor, [], whole)
