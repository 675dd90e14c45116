"""The lanes of this process's pool: registered once, then moved only by allocations."""

from __future__ import annotations

from collections.abc import Sequence

import structlog

from rpc import methods
from rpc.reads import Reads
from storage.database import Database
from tayho.kernel.address import Address
from tayho.kernel.steps import step
from tayho.transactions import store
from tayho.transactions.errors import LaneTaken
from tayho.transactions.types import LaneStatus, TransactionSettings

log = structlog.get_logger("tayho.lanes")


async def register_lanes(
    database: Database, reads: Reads, settings: TransactionSettings, signers: Sequence[Address]
) -> frozenset[Address]:
    """Make the pool, and for the first start a lane for each signer, its fence at the chain's pending nonce.

    Returns the signers whose lane it made. Replicas may run it at once; an existing fence is never moved by it. Once
    the pool has lanes only an operator gives a place in it: a signer without one stands by, and one that is retired is
    passed by. Raises LaneTaken when a signer serves another pool.
    """
    counts = await reads.ask_many([methods.transaction_count(signer.value, "pending") for signer in signers])
    for count in counts:
        if isinstance(count, Exception):
            raise count
    made: set[Address] = set()
    async with database.transaction() as tx:
        await store.REGISTER_POOL(tx, settings.chain_id, settings.environment, settings.role)
        # Of two first starts, the second finds the lanes of the first.
        await store.LOCK_POOL(tx, settings.chain_id, settings.environment, settings.role)
        is_first = not await store.HAS_LANES(tx, settings.chain_id, settings.environment, settings.role)
        for signer, count in sorted(zip(signers, counts, strict=True)):
            if is_first and await store.REGISTER_LANE(
                tx, settings.chain_id, signer.value, settings.environment, settings.role, count
            ):
                made.add(signer)
            row = await store.FIND_LANE(tx, settings.chain_id, signer.value)
            if row is None:
                log.warning("signer_stands_by", signer=str(signer), role=settings.role)
            elif (row["environment"], row["role"]) != (settings.environment, settings.role):
                raise LaneTaken(signer, row["environment"], row["role"])
            elif row["state"] == "retired":
                log.warning("signer_retired", signer=str(signer), role=settings.role)
    step("lane.after_register")
    return frozenset(made)


async def lanes_of_pool(database: Database, settings: TransactionSettings) -> list[LaneStatus]:
    async with database.connection() as connection:
        rows = await store.LANES_OF_POOL(connection, settings.chain_id, settings.environment, settings.role)
    return [store.lane_of(row) for row in rows]
