"""This process as a row: registered at start, alive by its heartbeat, draining when an operator says so."""

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

    async def heartbeat(self, running: Sequence[UUID]) -> Orders:
        """Say that this worker lives, and hear what is wanted of it and of the jobs that it runs.

        To drain is obeyed here. Raises StoreUnavailable.
        """
        async with self._database.connection() as connection:
            row = await HEARTBEAT(connection, self.worker_id, list(running))
        step("worker.after_heartbeat")
        if row is None:
            return Orders()
        if row["draining"]:
            self._drain.request("an operator asked this instance to drain")
        return Orders(frozenset(row["paused_roles"]), frozenset(row["unwanted"]))

    async def stop(self) -> None:
        """Record that this worker has ended in order."""
        async with self._database.connection() as connection:
            await STOP_WORKER(connection, self.worker_id)
        step("worker.after_stop")
