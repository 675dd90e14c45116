"""The face of transactions."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

import structlog
import trio

from nursery.periodic import every
from rpc.errors import RpcError
from rpc.reads import Reads
from rpc.truth import ChainTruth
from storage.database import Database
from storage.errors import StorageError
from tayho.contracts.coordination import Coordination
from tayho.contracts.custody import Custody
from tayho.kernel.address import Address
from tayho.kernel.jobs import Attempt, Job, Outcome
from tayho.kinds import OnChainKind
from tayho.transactions import store
from tayho.transactions.broadcast import Broadcaster
from tayho.transactions.errors import LaneTaken, LineageDrifted, TransactionError
from tayho.transactions.executor import Executor, execute_or_postpone
from tayho.transactions.explaining.facts import LineageReader, pool_look
from tayho.transactions.explaining.rules import explain_lineage
from tayho.transactions.explaining.types import (
    DoubtfulLine,
    EngineRules,
    LaneLine,
    LineageWhole,
    MemberSeen,
    NodeSight,
    PoolLook,
    TxExplanation,
)
from tayho.transactions.lanes import lanes_of_pool, register_lanes
from tayho.transactions.observing import observe_no_seconds, observe_nothing
from tayho.transactions.reconciler import Reconciler
from tayho.transactions.types import LaneStatus, LineageRecord, Observe, ObserveSeconds, TransactionSettings

__all__ = [
    "DoubtfulLine",
    "EngineRules",
    "LaneLine",
    "LaneTaken",
    "LineageReader",
    "LineageWhole",
    "MemberSeen",
    "NodeSight",
    "PoolLook",
    "TransactionError",
    "Transactions",
    "TxExplanation",
    "explain_lineage",
    "lineages_of_job",
    "pool_look",
]

log = structlog.get_logger("tayho.transactions")


class Transactions:
    """One pool's lanes and journal: jobs in, at most one effect each out."""

    def __init__(
        self,
        database: Database,
        coordination: Coordination,
        custody: Custody,
        reads: Reads,
        truth: ChainTruth,
        writes: Reads,
        write_endpoint: str,
        settings: TransactionSettings,
        signers: Sequence[Address],
        observe: Observe = observe_nothing,
        observe_seconds: ObserveSeconds = observe_no_seconds,
    ) -> None:
        self._database = database
        self._reads = reads
        self._settings = settings
        self._signers = tuple(signers)
        broadcaster = Broadcaster(writes, write_endpoint)
        self._executor = Executor(
            database, coordination, custody, reads, broadcaster, settings, self._signers, observe, observe_seconds
        )
        self._reconciler = Reconciler(
            database,
            coordination,
            custody,
            truth,
            broadcaster,
            self._executor,
            settings,
            observe=observe,
            observe_seconds=observe_seconds,
        )

    async def register(self) -> None:
        """Make sure that every signer has its lane. Raises LaneTaken, RpcError, StorageError."""
        await register_lanes(self._database, self._reads, self._settings, self._signers)

    async def run(self) -> None:
        """Serve executions and reconcile, until cancelled."""
        async with trio.open_nursery() as tasks:
            tasks.start_soon(self._executor.run, name="journal commits")
            tasks.start_soon(self._reconcile, name="reconciler")

    async def _reconcile(self) -> None:
        await every(
            self._settings.reconcile_seconds,
            self._reconciler.tick,
            transient=(StorageError, RpcError, LineageDrifted),
            backoff_seconds_max=max(self._settings.reconcile_seconds, 1),
            on_error=lambda error, failures: log.warning("reconcile_failed", failures=failures, error=str(error)),
        )

    async def execute(self, kind: OnChainKind, job: Job, attempt: Attempt) -> Outcome:
        """Carry one attempt as far as a node; how it ends is the attempt's outcome or an error that a retry resumes."""
        return await execute_or_postpone(self._executor, kind, job, attempt)

    async def lanes(self) -> list[LaneStatus]:
        """The pool's lanes as they are now."""
        return await lanes_of_pool(self._database, self._settings)

    async def open_lineages(self) -> int:
        """How many lineages of the pool are not final."""
        settings = self._settings
        async with self._database.connection() as connection:
            count = await store.OPEN_COUNT(connection, settings.chain_id, settings.environment, settings.role)
        return int(count)


async def lineages_of_job(database: Database, job_id: UUID) -> list[LineageRecord]:
    """Everything that was ever signed for a job, without the bytes. Needs no key, so any process can ask."""
    async with database.connection() as connection:
        rows = await store.LINEAGES_OF_JOB(connection, job_id)
        members = await store.MEMBERS_OF_LINEAGES(connection, [row["lineage_id"] for row in rows])
    return [store.lineage_record_of(row, members) for row in rows]
