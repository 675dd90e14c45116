"""An engine over a fresh database and the session's node."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from uuid import UUID

import pytest
import trio
from attrs import define

from rpc.endpoint import Endpoint
from rpc.reads import Call as Question
from tayho.custody.module import SigningPolicy, open_custody, parse_journal_keys, parse_signer_keys
from tayho.kernel.address import Address
from tayho.kernel.jobs import Attempt, Job
from tayho.kinds import Call
from tayho.local.development import PUBLIC_ACCOUNTS
from tayho.transactions.broadcast import Broadcaster
from tayho.transactions.executor import Executor
from tayho.transactions.journal import Journal
from tayho.transactions.lanes import register_lanes
from tayho.transactions.reconciler import Reconciler
from tayho.transactions.sending import Sending
from tayho.transactions.types import TransactionSettings
from tayho.voters import truth_of
from tests.coordination.conftest import CHAIN_ID, ENVIRONMENT, ROLE, Plane, plane
from tests.services.chain import LocalChain, local_chain

__all__ = ["plane"]

FEE_WEI_MAX = 100 * 10**9
SIGNERS = tuple(Address.parse(address) for address, _ in PUBLIC_ACCOUNTS)


@define
class Engine:
    """What an engine test acts on."""

    plane: Plane
    node: Endpoint
    contract: Address
    journal: Journal
    executor: Executor
    reconciler: Reconciler
    settings: TransactionSettings

    async def attempts(self, count: int, key: str = "key") -> list[Attempt]:
        """So many jobs, each with a current attempt."""
        worker_id = await self.plane.worker()
        attempts: list[Attempt] = []
        for number in range(count):
            begun = await self.plane.begin(await self.plane.enqueue(f"{key}-{number}"), worker_id)
            assert begun.attempt is not None
            attempts.append(begun.attempt)
        return attempts

    async def job(self, attempt: Attempt) -> Job:
        """The attempt's job, as a worker would have it."""
        record = await self.plane.coordination.inspect(attempt.job_id)
        assert record is not None
        return Job(
            job_id=attempt.job_id,
            chain_id=self.settings.chain_id,
            environment=self.settings.environment,
            role=record.role,
            kind=record.kind,
            idempotency_key=record.idempotency_key,
            request=record.request,
            generation=record.generation,
            has_live_lineage=record.has_live_lineage,
            created_at=record.created_at,
        )

    async def tick_and_mine(self, times: int) -> None:
        """Let the reconciler look and the chain go on, in turn."""
        for _ in range(times):
            await self.reconciler.tick()
            await self.node.ask(Question("anvil_mine", ("0x1",), lambda _: None, is_write=True))

    async def state(self, lineage_id: UUID) -> str:
        async with self.plane.database.connection() as connection:
            return await connection.fetchval(
                "SELECT state FROM transactions.lineages WHERE lineage_id = $1", lineage_id
            )


@pytest.fixture(scope="session")
def chain() -> Iterator[LocalChain]:
    """A node that mines a block for each transaction, until a test tells it otherwise."""
    with local_chain(block_seconds=None) as running:
        yield running


@pytest.fixture
async def engine(plane: Plane, chain: LocalChain) -> AsyncIterator[Engine]:
    """An engine with two lanes, its group commits running, no reconciler loop: the test ticks it."""
    settings = TransactionSettings(
        chain_id=CHAIN_ID,
        environment=ENVIRONMENT,
        role=ROLE,
        confirmations=1,
        reconcile_seconds=0,
        lane_depth=4,
        fee_wei_max=FEE_WEI_MAX,
    )
    policy = SigningPolicy(frozenset({CHAIN_ID}), FEE_WEI_MAX)
    signer_keys = parse_signer_keys(json.dumps(dict(PUBLIC_ACCOUNTS)))
    journal_keys = parse_journal_keys(json.dumps({"test": f"0x{'5a' * 32}"}), "test")
    async with Endpoint.open(chain.url, chain_id=CHAIN_ID) as node:
        await register_lanes(plane.database, node, settings, SIGNERS)
        with open_custody(signer_keys, journal_keys, policy) as custody:
            sending = Sending(Broadcaster(node, "node"))
            executor = Executor(plane.database, plane.coordination, custody, node, sending, settings, SIGNERS)
            reconciler = Reconciler(
                plane.database, plane.coordination, custody, truth_of([node]), sending, executor, settings
            )
            async with trio.open_nursery() as tasks:
                tasks.start_soon(executor.run)
                yield Engine(plane, node, chain.contract, executor.journal, executor, reconciler, settings)
                tasks.cancel_scope.cancel()


def any_call(number: int = 0) -> Call:
    """A call that succeeds and does nothing."""
    return Call(Address(b"\x77" * 20), number.to_bytes(4, "big"))
