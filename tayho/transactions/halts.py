"""Halts: while one of the pool is open, nothing is signed, sent or finalised, by any replica (TX-6, TX-14)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from uuid import UUID

import structlog

from storage.commits import again_if_lost
from storage.database import Connection, Database
from tayho.kernel.ids import new_id
from tayho.kernel.json_document import Json
from tayho.kernel.steps import step
from tayho.transactions import store
from tayho.transactions.errors import PoolHalted
from tayho.transactions.types import Halt, HaltKind, Resolution, TransactionSettings

log = structlog.get_logger("tayho.halts")


class Halts:
    """The halts of one pool, and whether this process has seen one open.

    What commits a nonce, a signature or an end holds the pool unhalted in its own transaction (`held_unhalted`), so
    that none of it commits after a halt has. `refuse` is for what only reads and sends: it costs nothing, and is as
    fresh as the last `look`.
    """

    def __init__(self, database: Database, settings: TransactionSettings) -> None:
        self._database = database
        self._settings = settings
        self._seen: tuple[Halt, ...] = ()

    @property
    def is_seen(self) -> bool:
        """Whether the last look saw a halt."""
        return bool(self._seen)

    async def open(self) -> list[Halt]:
        """The halts that are open now, the oldest first. Raises StorageError."""
        settings = self._settings
        async with self._database.connection() as connection:
            rows = await store.OPEN_HALTS(connection, settings.chain_id, settings.environment, settings.role)
        return [store.halt_of(row) for row in rows]

    async def look(self) -> tuple[Halt, ...]:
        """As `open`, and remembered for `refuse`. Raises StorageError."""
        found = tuple(await self.open())
        if {halt.halt_id for halt in found} != {halt.halt_id for halt in self._seen}:
            for halt in found:
                log.error("pool_halted", kind=halt.kind, halt_id=str(halt.halt_id), evidence=dict(halt.evidence))
            if not found:
                log.warning("pool_goes_on")
        self._seen = found
        return found

    def refuse(self) -> None:
        """Raise PoolHalted while the last look saw a halt."""
        if self._seen:
            raise PoolHalted(tuple(halt.kind for halt in self._seen))

    async def raise_halt(self, kind: HaltKind, evidence: Mapping[str, Json]) -> Halt:
        """Halt the pool for every replica. An open halt of the kind stays as it is and is returned.

        Returns after every transaction that had found the pool unhalted has ended. Raises StorageError.
        """
        settings = self._settings
        pool = (settings.chain_id, settings.environment, settings.role)

        async def once() -> Halt:
            async with self._database.transaction() as tx:
                await store.LOCK_POOL_FOR_HALT(tx, *pool)
                (row,) = await store.RAISE_HALT(tx, *pool, new_id(), kind, dict(evidence), settings.instance_id)
            step("halt.after_raise")
            return store.halt_of(row)

        halt = await again_if_lost(once)
        await self.look()
        return halt

    async def resolve(self, halt_id: UUID, resolution: Resolution, by: str) -> bool:
        """End one halt; False where it is not open. Other open halts keep the pool halted. Raises StorageError."""
        async with self._database.transaction() as tx:
            resolved = await resolve_halts(tx, self._settings, [halt_id], resolution, by)
        step("halt.after_resolve")
        await self.look()
        return bool(resolved)


async def held_unhalted(tx: Connection, settings: TransactionSettings) -> bool:
    """Whether the pool is not halted; then it stays so until `tx` ends. Locks the pool: after jobs, before lanes."""
    return not await store.HOLD_POOL(tx, settings.chain_id, settings.environment, settings.role)


async def resolve_halts(
    tx: Connection, settings: TransactionSettings, halt_ids: Sequence[UUID], resolution: Resolution, by: str
) -> frozenset[UUID]:
    """End those halts that are open, in `tx`; the pool goes on with its commit if none is left."""
    pool = (settings.chain_id, settings.environment, settings.role)
    await store.LOCK_POOL_FOR_HALT(tx, *pool)
    rows = await store.RESOLVE_HALTS(tx, halt_ids, resolution, by)
    await store.UNMARK_POOL(tx, *pool)
    return frozenset(row["halt_id"] for row in rows)
