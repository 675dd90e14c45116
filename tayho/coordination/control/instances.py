"""Draining one process from outside, and letting it work again (OPS-6)."""

from __future__ import annotations

from collections.abc import Mapping

import trio

from storage.commits import again_if_lost
from storage.database import Connection, Database
from storage.rows import value_from
from tayho.coordination import store
from tayho.coordination.control.instance_rules import InstanceSeen, to_drain, to_undrain
from tayho.coordination.control.types import Deed, Drained, Standing
from tayho.coordination.waking import wake
from tayho.kernel.json_document import Json
from tayho.kernel.steps import step

LOOK_SECONDS = 0.25


class Instances:
    """The processes of one (chain, environment), as an operator reaches them. Needs a database alone.

    An instance is named by its INSTANCE_ID, or by its worker id, which no other process ever has. Whatever changes
    something may raise StoreUnavailable, with nothing done, and CommitUnknown: asking again is right.
    """

    def __init__(self, database: Database, chain_id: int, environment: str) -> None:
        self._database = database
        self._chain_id = chain_id
        self._environment = environment

    async def drain(self, instance: str, deed: Deed) -> Drained:
        """Let the process take no new work. It finishes what it has, lives on, and can be undrained.

        Raises InstanceRefused: InstanceUnknown, InstanceGone, InstanceAmbiguous.
        """

        async def once() -> Drained:
            async with self._database.transaction() as tx:
                found = to_drain(instance, await self._locked(tx, instance))
                is_new = not found.draining
                if is_new:
                    await self._record(tx, "drain", deed, found)
                    await store.DRAIN_WORKER(tx, found.worker_id)
            step("control.after_drain")
            return Drained(found.worker_id, found.instance_id, changed=is_new)

        done = await again_if_lost(once)
        await wake(self._database, store.WAKE_WORKERS)
        return done

    async def undrain(self, instance: str, deed: Deed) -> Drained:
        """Let the drained process take work again.

        Raises InstanceRefused: as `drain`; AnotherProcess where the name is another process's by now, which nobody
        drained; InstanceStopping where the process was told to end.
        """

        async def once() -> Drained:
            async with self._database.transaction() as tx:
                found = to_undrain(instance, await self._locked(tx, instance))
                if found.draining:
                    await self._record(tx, "undrain", deed, found)
                    await store.UNDRAIN_WORKER(tx, found.worker_id)
            step("control.after_undrain")
            return Drained(found.worker_id, found.instance_id, changed=found.draining)

        done = await again_if_lost(once)
        await wake(self._database, store.WAKE_WORKERS)
        return done

    async def await_drained(self, drained: Drained, seconds: float) -> Standing:
        """How the process stands once it has said that it is through, has ended, or the time is up."""
        standing = await self._standing(drained)
        with trio.move_on_after(seconds):
            while not standing.is_through:
                await trio.sleep(LOOK_SECONDS)
                standing = await self._standing(drained)
        return standing

    async def _standing(self, drained: Drained) -> Standing:
        async with self._database.connection() as connection:
            row = await store.STANDING_OF_WORKER(connection, drained.worker_id)
        # Retention forgets a worker only when nothing of it is left.
        return Standing(True, True, 0.0, 0) if row is None else value_from(Standing, row)

    async def _locked(self, tx: Connection, instance: str) -> list[InstanceSeen]:
        rows = await store.LOCK_INSTANCE(tx, self._chain_id, self._environment, instance)
        return [value_from(InstanceSeen, row, roles=tuple(row["roles"])) for row in rows]

    async def _record(self, tx: Connection, action: str, deed: Deed, found: InstanceSeen) -> None:
        detail: Mapping[str, Json] = {
            "instance_id": found.instance_id,
            "worker_id": str(found.worker_id),
            "started_at": found.started_at.isoformat(),
            "reason": deed.reason,
        }
        await store.RECORD_ACTION(tx, self._chain_id, self._environment, action, deed.actor, [], detail)
