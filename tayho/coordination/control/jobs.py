"""Replay and cancel: each is one transaction, together with the record of who did it and why (DLV-9, DLV-15)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from uuid import UUID

import trio

from storage.commits import again_if_lost
from storage.database import Connection
from storage.rows import value_from
from tayho.coordination import store
from tayho.coordination.batching import release_children, restore_children
from tayho.coordination.control.constants import CANCELLED
from tayho.coordination.control.errors import BatchMayTakeEffect, ControlRefused, JobUnknown, NotABatch
from tayho.coordination.control.rules import Standing, cancel_refusal, replay_refusal
from tayho.coordination.control.types import Cancelled, Deed, PageDone
from tayho.coordination.reading import JobReader
from tayho.coordination.types import JobLine
from tayho.coordination.waking import wake
from tayho.kernel.json_document import Json
from tayho.kernel.steps import step
from tayho.kernel.transitions import JOB

LOOK_AGAIN_SECONDS = 0.1
TOOK_NO_EFFECT = frozenset({"dead", "not_actionable", "quarantined"})


class JobControl(JobReader):
    """What operators do to the jobs of one (chain, environment). Needs a database alone.

    Whatever changes something may raise StoreUnavailable, with nothing done, and CommitUnknown: asking again is right.
    """

    async def list_dead(
        self, *, kind: str | None = None, error_type: str | None = None, lines_max: int = 50
    ) -> list[JobLine]:
        """The newest dead jobs, at most `lines_max`, of one kind or last error if given."""
        async with self._database.connection() as connection:
            rows = await store.LIST_DEAD(connection, self._chain_id, self._environment, kind, error_type, lines_max)
        return [store.job_line_of(row) for row in rows]

    async def replay(self, job_id: UUID, deed: Deed) -> None:
        """Queue a dead job again: its key and history stay, its budget is whole, its delivery a new generation.

        Raises JobUnknown, NotDead, JobArchived.
        """
        done = await self.replay_page([job_id], deed, {})
        for refusal in done.refused.values():
            raise refusal

    async def cancel(self, job_id: UUID, deed: Deed) -> Cancelled:
        """End a job that does not run, or ask its worker to stop it. To ask again is to get the same answer.

        Raises JobUnknown, CancelRefused, AlreadyEnded, BatchedNotCancellable.
        """
        done = await self.cancel_page([job_id], deed, {})
        for refusal in done.refused.values():
            raise refusal
        return Cancelled(job_id, done.has_ended[job_id])

    async def release_children(self, tx: Connection, batch_job_id: UUID, deed: Deed) -> frozenset[UUID]:
        """Let what a batch carried wait for another, in `tx`: the batch took no effect, and is not replayed any more.

        Raises JobUnknown, NotABatch, BatchMayTakeEffect.
        """
        await store.LOCK_JOBS(tx, [batch_job_id])
        row = await store.STANDING_OF_BATCH(tx, self._chain_id, self._environment, batch_job_id)
        if row is None:
            raise JobUnknown(batch_job_id)
        if row["batch_children"] is not None and row["state"] not in TOOK_NO_EFFECT:
            raise BatchMayTakeEffect(batch_job_id, row["state"])
        released = await release_children(tx, batch_job_id)
        if not released:
            raise NotABatch(batch_job_id)
        await self._record(tx, "release", deed, released, {"batch_job_id": str(batch_job_id)})
        return released

    async def await_end(self, job_ids: Sequence[UUID], *, seconds: float) -> dict[UUID, str]:
        """The states of the jobs once all have ended, or after `seconds`: then some are not terminal."""
        states: dict[UUID, str] = dict.fromkeys(job_ids, "")
        with trio.move_on_after(seconds):
            while open_ones := [job_id for job_id, state in states.items() if state not in JOB.terminal]:
                async with self._database.connection() as connection:
                    states |= await self._states(connection, open_ones)
                if not JOB.terminal.issuperset(states.values()):
                    await trio.sleep(LOOK_AGAIN_SECONDS)
        return states

    async def replay_page(self, job_ids: Sequence[UUID], deed: Deed, detail: Mapping[str, Json]) -> PageDone:
        """Replay those that may be, in one transaction; `detail` goes into its record."""

        async def once() -> PageDone:
            async with self._database.transaction() as tx:
                await store.LOCK_JOBS(tx, job_ids)
                asked, refused = await self._judge(tx, job_ids, replay_refusal)
                await restore_children(tx, asked)
                await store.PERMIT_REPLAY(tx)
                queued = store.ids_of(await store.REPLAY_IF_DEAD(tx, asked))
                await self._record(tx, "replay", deed, queued, detail)
            step("control.after_replay")
            return PageDone(dict.fromkeys(queued, False), refused)

        done = await again_if_lost(once)
        await wake(self._database, store.WAKE)
        return done

    async def cancel_page(self, job_ids: Sequence[UUID], deed: Deed, detail: Mapping[str, Json]) -> PageDone:
        """Cancel those that may be, in one transaction; `detail` goes into its record."""
        last_error = {"type": CANCELLED, "message": f"cancelled by {deed.actor}: {deed.reason or 'no reason given'}"}

        async def once() -> tuple[PageDone, bool]:
            async with self._database.transaction() as tx:
                asked, refused = await self._judge(tx, job_ids, cancel_refusal)
                rows = await store.CANCEL_IF_OPEN(tx, asked, last_error)
                await self._record(tx, "cancel", deed, store.ids_of(rows), detail)
                # Also those that an earlier request has ended, or still waits for.
                states = await self._states(tx, asked)
            step("control.after_cancel")
            frees_a_limit = any(row["frees_a_limit"] for row in rows)
            return PageDone({job_id: state in JOB.terminal for job_id, state in states.items()}, refused), frees_a_limit

        done, frees_a_limit = await again_if_lost(once)
        if not all(done.has_ended.values()):
            await wake(self._database, store.WAKE_WORKERS)
        if frees_a_limit:
            await wake(self._database, store.WAKE)
        return done

    async def _judge(
        self, tx: Connection, job_ids: Sequence[UUID], refusal_of: Callable[[Standing], ControlRefused | None]
    ) -> tuple[list[UUID], dict[UUID, ControlRefused]]:
        """Lock the jobs; those that may be changed, and why the others may not."""
        rows = await store.LOCK_FOR_CONTROL(tx, self._chain_id, self._environment, job_ids)
        found = {row["job_id"]: refusal_of(value_from(Standing, row)) for row in rows}
        refused: dict[UUID, ControlRefused] = {job_id: JobUnknown(job_id) for job_id in job_ids if job_id not in found}
        refused |= {job_id: refusal for job_id, refusal in found.items() if refusal is not None}
        return [job_id for job_id, refusal in found.items() if refusal is None], refused

    async def _record(
        self, tx: Connection, action: str, deed: Deed, job_ids: frozenset[UUID], detail: Mapping[str, Json]
    ) -> None:
        """Write down what was done; where nothing changed, there is nothing to tell."""
        if job_ids:
            whole = {**detail, "reason": deed.reason}
            await store.RECORD_ACTION(tx, self._chain_id, self._environment, action, deed.actor, sorted(job_ids), whole)

    async def _states(self, connection: Connection, job_ids: Sequence[UUID]) -> dict[UUID, str]:
        rows = await store.STATES_OF(connection, self._chain_id, self._environment, job_ids)
        return {row["job_id"]: row["state"] for row in rows}
