"""This process as a row: registered at start, alive by its heartbeat, drained when an operator says so."""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from uuid import UUID

from attrs import frozen

from nursery.drain import Drain
from storage.database import Database
from tayho.coordination.store import HEARTBEAT, REGISTER_WORKER, STOP_WORKER
from tayho.kernel.steps import step

HEARTBEAT_SECONDS = 5


@frozen
class Orders:
    """What operators want of this worker now."""

    # Nothing new is taken, until the word changes.
    is_drained: bool = False
    # No work of these is taken.
    paused_roles: frozenset[str] = frozenset()
    # Running jobs that are to stop.
    unwanted: frozenset[UUID] = frozenset()


class WorkerRow:
    """One incarnation of one process. A restart is another worker, so a stale attempt never looks current (DLV-6)."""

    def __init__(self, database: Database, worker_id: UUID, drain: Drain) -> None:
        self._database = database
        self.worker_id = worker_id
        self._drain = drain

    async def register(
        self,
        instance_id: str,
        chain_id: int,
        environment: str,
        roles: Sequence[str],
        version: str,
        kinds: Sequence[str] = (),
    ) -> None:
        """`kinds`: what it can run, for the others to know."""
        async with self._database.connection() as connection:
            await REGISTER_WORKER(
                connection,
                self.worker_id,
                instance_id,
                chain_id,
                environment,
                list(roles),
                socket.gethostname(),
                os.getpid(),
                version,
                list(kinds),
            )
        step("worker.after_register")

    async def heartbeat(self, running: Sequence[UUID], *, is_idle: bool = False) -> Orders:
        """Say that this worker lives, and hear what is wanted of it and of the jobs that it runs.

        `is_idle`: it was drained before, took nothing since and has nothing in hand. Raises StoreUnavailable.
        """
        async with self._database.connection() as connection:
            row = await HEARTBEAT(connection, self.worker_id, list(running), self._drain.requested, is_idle)
        step("worker.after_heartbeat")
        if row is None:
            return Orders()
        # Told to end, it does so by itself: the row says no more than that.
        is_drained = row["draining"] and not self._drain.requested
        return Orders(is_drained, frozenset(row["paused_roles"]), frozenset(row["unwanted"]))

    async def stop(self) -> None:
        """Record that this worker has ended in order."""
        async with self._database.connection() as connection:
            await STOP_WORKER(connection, self.worker_id)
        step("worker.after_stop")
