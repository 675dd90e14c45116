"""The face of transactions."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

import structlog
import trio

from nursery.periodic import every
from rpc.errors import RpcError
from rpc.reads import Reads, Writes
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
from tayho.transactions.errors import ActRefused, LaneTaken, PoolHalted, RotationRefused, TransactionError
from tayho.transactions.evidence import evidence_of_job
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
from tayho.transactions.halts import Halts
from tayho.transactions.lane_watch import LaneWatch
from tayho.transactions.lanes import lanes_of_pool, register_lanes
from tayho.transactions.observing import observe_no_seconds, observe_nothing
from tayho.transactions.reconciler import Reconciler, Step
from tayho.transactions.reorganising import Reorganisations
from tayho.transactions.replacing.acts import LineageControl
from tayho.transactions.replacing.rounds import Replacing
from tayho.transactions.replacing.types import Act, Wished
from tayho.transactions.results import Results
from tayho.transactions.rotating.draining import SignerDrains
from tayho.transactions.rotating.keys import KeyRetirement
from tayho.transactions.rotating.pools import SignerRotation
from tayho.transactions.rotating.types import CheckDone, LaneDrained, LaneLeft, LaneNow, Rotated
from tayho.transactions.sending import Sending
from tayho.transactions.superseding import Superseding
from tayho.transactions.types import (
    Halt,
    Happening,
    LaneStatus,
    LineageRecord,
    Observe,
    ObserveSeconds,
    TransactionSettings,
)
from tayho.transactions.world import World
from tayho.transactions.world_acts import WorldActs

__all__ = [
    "Act",
    "ActRefused",
    "CheckDone",
    "DoubtfulLine",
    "EngineRules",
    "KeyRetirement",
    "LaneDrained",
    "LaneLeft",
    "LaneLine",
    "LaneNow",
    "LaneTaken",
    "LineageControl",
    "LineageReader",
    "LineageWhole",
    "MemberSeen",
    "NodeSight",
    "PoolHalted",
    "PoolLook",
    "Rotated",
    "RotationRefused",
    "SignerDrains",
    "SignerRotation",
    "TransactionError",
    "Transactions",
    "TxExplanation",
    "Wished",
    "WorldActs",
    "evidence_of_job",
    "explain_lineage",
    "lineages_of_job",
    "open_halts",
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
        writes: Writes,
        write_endpoint: str,
        settings: TransactionSettings,
        signers: Sequence[Address],
        observe: Observe = observe_nothing,
        observe_seconds: ObserveSeconds = observe_no_seconds,
        kinds: Sequence[OnChainKind] = (),
    ) -> None:
        """`kinds` are those that are asked what the receipts of their jobs mean."""
        self._database = database
        self._reads = reads
        self._settings = settings
        self._signers = tuple(signers)
        self._observe = observe
        sending = Sending(Broadcaster(writes, write_endpoint))
        self._executor = Executor(
            database,
            coordination,
            custody,
            reads,
            sending,
            settings,
            self._signers,
            observe,
            observe_seconds,
            agreed=truth.reads if len(truth.voters) > 1 else None,
        )
        self._truth = truth
        self._world = World(database, coordination, truth, self._executor.halts, settings)
        results = Results(database, coordination, kinds, settings.instance_id, observe)
        self._reorganisations = Reorganisations(database, coordination, truth, self._executor.halts, settings, results)
        replacing = self._replacing(coordination, custody, sending, observe, observe_seconds)
        self._reconciler = Reconciler(
            database,
            coordination,
            custody,
            truth,
            sending,
            self._executor,
            settings,
            steps=self._steps(coordination, replacing),
            results=results,
            observe=observe,
            observe_seconds=observe_seconds,
        )

    def _replacing(
        self,
        coordination: Coordination,
        custody: Custody,
        sending: Sending,
        observe: Observe,
        observe_seconds: ObserveSeconds,
    ) -> Replacing:
        return Replacing(
            self._database,
            coordination,
            custody,
            self._truth,
            self._reads,
            self._executor.fee_market,
            sending,
            self._settings,
            observe,
            observe_seconds,
        )

    def _steps(self, coordination: Coordination, replacing: Replacing) -> list[Step]:
        """What a tick does after the open lineages. What the chain took back lives again before anything else."""
        database, truth, settings = self._database, self._truth, self._settings
        superseding = Superseding(database, coordination, truth, settings)
        watch = LaneWatch(database, coordination, truth, self._executor.halts, settings)
        return [self._reorganisations.step, superseding.step, watch.step, replacing.step, self._world.step]

    async def register(self) -> None:
        """Make sure that every signer has its lane, and that the chain is the one that the journal is about.

        A wrong world raises nothing: it halts the pool, which stays so until an operator's command (`halts`). Raises
        LaneTaken, RpcError, StorageError.
        """
        fresh = await register_lanes(self._database, self._reads, self._settings, self._signers)
        self._executor.pool_signers.usable(await self.lanes())
        await self._world.at_start(fresh)

    async def run(self) -> None:
        """Serve executions and reconcile, until cancelled."""
        async with trio.open_nursery() as tasks:
            tasks.start_soon(self._executor.run, name="journal commits")
            tasks.start_soon(self._reconcile, name="reconciler")

    async def _reconcile(self) -> None:
        await every(
            self._settings.reconcile_seconds,
            self._tick,
            transient=(StorageError, RpcError, TransactionError),
            backoff_seconds_max=max(self._settings.reconcile_seconds, 1),
            on_error=self._note_failure,
        )

    def _note_failure(self, error: Exception, failures: int) -> None:
        log.warning("reconcile_failed", failures=failures, error=str(error))
        self._observe(Happening.LOOK_FAILED, type(error).__name__, 1)

    async def _tick(self) -> bool:
        """The world first: what it halts is not worked on. After a halt the chain is known anew, as was decided."""
        was_halted = self._executor.halts.is_seen
        await self._world.check()
        if was_halted and not await self._executor.halts.look():
            await self._truth.heads.start_over()
            self._reorganisations.start_over()
        return await self._reorganisations.watched(self._reconciler.tick)

    async def execute(self, kind: OnChainKind, job: Job, attempt: Attempt) -> Outcome:
        """Carry one attempt as far as a node; how it ends is the attempt's outcome or an error that a retry resumes."""
        return await execute_or_postpone(self._executor, kind, job, attempt)

    async def lanes(self) -> list[LaneStatus]:
        """The pool's lanes as they are now."""
        return await lanes_of_pool(self._database, self._settings)

    async def halts(self) -> list[Halt]:
        """The pool's open halts: while there is one, nothing is signed, sent or finalised. Raises StorageError."""
        return await self._executor.halts.open()

    async def open_lineages(self) -> int:
        """How many lineages of the pool are not final."""
        settings = self._settings
        async with self._database.connection() as connection:
            count = await store.OPEN_COUNT(connection, settings.chain_id, settings.environment, settings.role)
        return int(count)


async def open_halts(database: Database, settings: TransactionSettings) -> list[Halt]:
    """What halts the pool now, the oldest first. Needs no key, so any process can ask. Raises StorageError."""
    return await Halts(database, settings).open()


async def lineages_of_job(database: Database, job_id: UUID) -> list[LineageRecord]:
    """Everything that was ever signed for a job, without the bytes. Needs no key, so any process can ask."""
    async with database.connection() as connection:
        rows = await store.LINEAGES_OF_JOB(connection, job_id)
        members = await store.MEMBERS_OF_LINEAGES(connection, [row["lineage_id"] for row in rows])
    return [store.lineage_record_of(row, members) for row in rows]
