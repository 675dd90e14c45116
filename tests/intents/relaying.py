"""A relayer on the reference protocol: the line, its batches, and a chain that the test mines by hand."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import UUID

import trio
from attrs import define, evolve, field

from rpc.reads import Call as Question
from rpc.reads import Reads
from storage.database import Database
from storage.records import Delivery, delivery_id
from tayho.coordination.attempts import begin
from tayho.coordination.module import Coordination, Deed, JobControl
from tayho.coordination.types import JobRecord
from tayho.custody.module import SigningPolicy, open_custody, parse_journal_keys, parse_signer_keys
from tayho.custody.recovery import recovered
from tayho.intents.module import BATCH_KIND, ROLE, Batcher, BatchKind, Intents, Line, Sight
from tayho.intents.types import BatchContract, BatchSettings, Intent, LinePlace, SignedIntent
from tayho.kernel.ids import new_id
from tayho.kernel.jobs import Outcome
from tayho.local.development import PUBLIC_ACCOUNTS
from tayho.protocol.batches import ReferenceExecutor
from tayho.protocol.intents import permit_of
from tayho.transactions.broadcast import Broadcaster
from tayho.transactions.executor import Executor
from tayho.transactions.lanes import register_lanes
from tayho.transactions.reconciler import Reconciler
from tayho.transactions.reorganising import Reorganisations
from tayho.transactions.results import Results
from tayho.transactions.sending import Sending
from tayho.transactions.types import TransactionSettings
from tayho.voters import truth_of
from tests.coordination.conftest import CHAIN_ID, ENVIRONMENT, SETTINGS, Plane
from tests.protocol.reference import Reference, reference_on_anvil
from tests.transactions.conftest import FEE_WEI_MAX, SIGNERS

BATCHES = BatchSettings(
    window_milliseconds=10,
    items_max=64,
    gas_buffer_basis_points=2_000,
    block_share_basis_points=5_000,
    gas_max=10_000_000,
)
DEED = Deed("ada", "a test")


@define
class Relay:
    """What a test of batches acts on."""

    plane: Plane
    reference: Reference
    contract: BatchContract
    intents: Intents
    line: Line
    kind: BatchKind
    executor: Executor
    reconciler: Reconciler
    seen: list[tuple[str, str, int]] = field(factory=list)

    def batcher(
        self,
        *,
        database: Database | None = None,
        reads: Reads | None = None,
        agreed: Reads | None = None,
        **changes: Any,
    ) -> Batcher:
        """A relayer's coordinator, with settings and a sight of its own if given."""
        opened, node = database or self.plane.database, self.reference.endpoint
        coordination = Coordination(opened, self.plane.queue_of, CHAIN_ID, ENVIRONMENT, SETTINGS)

        async def majority() -> Reads:
            await trio.lowlevel.checkpoint()
            assert agreed is not None
            return agreed

        return Batcher(
            opened,
            coordination,
            self.reference.domain,
            ENVIRONMENT,
            self.contract,
            Sight(reads or node, truth_of([node]).heads.head, None if agreed is None else majority),
            evolve(BATCHES, **changes),
            lambda what, label, count: self.seen.append((what.value, label, count)),
        )

    async def submit(self, *wanted: Intent) -> list[UUID]:
        """The intents in this order, signed by the account's session."""
        accepted = [await self.intents.submit(self.signed(one)) for one in wanted]
        return [one.job_id for one in accepted]

    def signed(self, one: Intent) -> SignedIntent:
        return SignedIntent(one, self.reference.signed(one).signature)

    async def carry(self) -> list[Outcome]:
        """One attempt of every batch that waits for one, oldest first."""
        rows = await self.rows(
            "SELECT job_id, generation FROM coordination.jobs WHERE kind = $1 AND state IN ('queued', 'retry')"
            " ORDER BY job_id",
            BATCH_KIND,
        )
        deliveries = [
            Delivery(delivery_id(job_id, generation), new_id().hex, BATCH_KIND, {}, 0, 3, 0, None, None, {})
            for job_id, generation in rows
        ]
        begun = await begin(
            self.plane.database,
            self.plane.database,
            deliveries,
            worker_id=await self.plane.worker(),
            attempts_max=SETTINGS.attempts_max,
            chain_id=CHAIN_ID,
            environment=ENVIRONMENT,
            kinds=[BATCH_KIND],
        )
        outcomes: list[Outcome] = []
        for one in begun:
            assert one.job is not None
            assert one.attempt is not None
            outcomes.append(await self.executor.execute(self.kind, one.job, one.attempt))
        return outcomes

    async def finish(self, turns: int = 3) -> None:
        """Let chain and reconciler go on, in turn."""
        for _ in range(turns):
            await self.ask("anvil_mine", "0x1")
            await self.reconciler.tick()

    async def ask(self, method: str, *params: object) -> Any:
        return await self.reference.endpoint.ask(Question(method, params, lambda answer: answer, is_write=True))

    async def rows(self, sql: str, *arguments: object) -> list[tuple[Any, ...]]:
        async with self.plane.database.connection() as connection:
            return [tuple(row.values()) for row in await connection.fetch(sql, *arguments)]

    async def states(self, job_ids: Sequence[UUID]) -> list[str]:
        return [await self.plane.state(job_id) for job_id in job_ids]

    async def record(self, job_id: UUID) -> JobRecord:
        record = await self.plane.coordination.inspect(job_id)
        assert record is not None
        return record

    async def places(self, job_ids: Sequence[UUID]) -> list[LinePlace]:
        found = [await self.line.places(job_id) for job_id in job_ids]
        return [place for places in found for place in places]

    async def batches(self) -> list[UUID]:
        return [row[0] for row in await self.rows("SELECT job_id FROM coordination.jobs WHERE kind = $1", BATCH_KIND)]

    def control(self) -> JobControl:
        return JobControl(self.plane.database, CHAIN_ID, ENVIRONMENT)

    async def release(self, batch: UUID) -> int:
        """As the command does it."""
        return await self.line.release(
            batch, lambda tx, batch_job_id: self.control().release_children(tx, batch_job_id, DEED)
        )


@asynccontextmanager
async def relay_on_anvil(plane: Plane, folder: Path) -> AsyncGenerator[Relay]:
    """Contracts on a node of its own, two lanes, no loop: the test looks, carries and ticks."""
    transactions = TransactionSettings(
        chain_id=CHAIN_ID,
        environment=ENVIRONMENT,
        role=ROLE,
        confirmations=1,
        reconcile_seconds=0,
        lane_depth=4,
        fee_wei_max=FEE_WEI_MAX,
        reorg_lookback_blocks=12,
    )
    signer_keys = parse_signer_keys(json.dumps(dict(PUBLIC_ACCOUNTS)))
    journal_keys = parse_journal_keys(json.dumps({"test": f"0x{'5a' * 32}"}), "test")
    policy = SigningPolicy(frozenset({CHAIN_ID}), FEE_WEI_MAX)
    async with reference_on_anvil(folder) as reference:
        node, database, coordination = reference.endpoint, plane.database, plane.coordination
        # A reorganisation must spare the contracts.
        await node.ask(Question("anvil_mine", ("0x18",), lambda _: None, is_write=True))
        contract = ReferenceExecutor(reference.executor, reference.protocol)
        intents = Intents(
            database, coordination, reference.domain, ENVIRONMENT, permit_of(node, reference.domain), recovered
        )
        await intents.register()
        await register_lanes(database, node, transactions, SIGNERS)
        kind = BatchKind(database, coordination, ReferenceExecutor)
        with open_custody(signer_keys, journal_keys, policy) as custody:
            sending = Sending(Broadcaster(node, "node"))
            executor = Executor(database, coordination, custody, node, sending, transactions, SIGNERS)
            results, truth = Results(database, coordination, [kind], "one"), truth_of([node])
            healing = Reorganisations(database, coordination, truth, executor.halts, transactions, results)
            reconciler = Reconciler(
                database, coordination, custody, truth, sending, executor, transactions, [healing.step], results
            )
            line = Line(database, CHAIN_ID, ENVIRONMENT)
            async with trio.open_nursery() as tasks:
                tasks.start_soon(executor.run)
                tasks.start_soon(intents.run)
                yield Relay(plane, reference, contract, intents, line, kind, executor, reconciler)
                tasks.cancel_scope.cancel()
