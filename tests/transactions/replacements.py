"""What the tests of replacement share: a chain whose blocks the test makes, and the journal's view of it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID

from attrs import evolve

from rpc import methods
from rpc.member import Member
from rpc.reads import Call as Question
from rpc.reads import Reads
from tayho.kernel.jobs import Attempt, Ended
from tayho.transactions.broadcast import Broadcaster
from tayho.transactions.fee_market import FeeMarket
from tayho.transactions.replacing.acts import LineageControl
from tayho.transactions.replacing.rounds import Replacing
from tayho.transactions.sending import Sending
from tayho.voters import truth_of
from tests.coordination.conftest import CHAIN_ID, ENVIRONMENT
from tests.transactions.conftest import Engine, any_call
from tests.transactions.test_executor import Kind

GWEI = 10**9


def order(node: Reads, method: str, *params: object) -> Any:
    """An instruction to the node itself."""
    return node.ask(Question(method, params, lambda answer: answer, is_write=True))


@asynccontextmanager
async def mining_held(node: Reads) -> AsyncGenerator[None]:
    """No block but those that the test asks for; afterwards the chain is as the other tests expect it."""
    await order(node, "evm_setAutomine", False)
    try:
        yield
    finally:
        await order(node, "anvil_dropAllTransactions")
        await order(node, "anvil_setNextBlockBaseFeePerGas", hex(GWEI))
        await order(node, "evm_setAutomine", True)
        await order(node, "evm_mine")


def replacing(engine: Engine, *, voter: Member | None = None, reads: Reads | None = None, **changed: Any) -> Replacing:
    """A replica's replacing over the engine's journal; everything is stuck at once unless it is said otherwise."""
    return Replacing(
        engine.plane.database,
        engine.plane.coordination,
        engine.executor._custody,  # pyright: ignore[reportPrivateUsage]
        truth_of([voter or engine.node]),
        reads or engine.node,
        FeeMarket(engine.node),
        Sending(Broadcaster(engine.node, "node")),
        evolve(engine.settings, **{"stuck_seconds": 0, **changed}),
    )


async def step(engine: Engine, replaces: Replacing) -> None:
    head = await engine.node.ask(methods.block_by_number("latest"))
    assert head is not None
    await replaces.step(head)


async def sent(engine: Engine, count: int, key: str = "key") -> list[Attempt]:
    """So many jobs whose transactions are with the node."""
    attempts = await engine.attempts(count, key)
    for number, attempt in enumerate(attempts):
        assert await engine.executor.execute(Kind(any_call(number)), await engine.job(attempt), attempt) == Ended()
    return attempts


async def rows(engine: Engine, query: str, *arguments: object) -> list[dict[str, Any]]:
    async with engine.plane.database.connection() as connection:
        return [dict(row) for row in await connection.fetch(query, *arguments)]


async def members(engine: Engine, attempt: Attempt) -> list[dict[str, Any]]:
    """All that was signed for the job, oldest first."""
    return await rows(
        engine,
        "SELECT members.* FROM transactions.members JOIN transactions.lineages USING (lineage_id)"
        " WHERE job_id = $1 ORDER BY member_number",
        attempt.job_id,
    )


async def lineage(engine: Engine, attempt: Attempt) -> dict[str, Any]:
    (row,) = await rows(engine, "SELECT * FROM transactions.lineages WHERE job_id = $1", attempt.job_id)
    return row


async def events(engine: Engine, attempt: Attempt) -> list[str]:
    found = await rows(
        engine, "SELECT kind FROM transactions.events WHERE job_id = $1 ORDER BY event_id", attempt.job_id
    )
    return [row["kind"] for row in found]


async def finish(engine: Engine, attempts: Sequence[Attempt]) -> list[str]:
    """Let the chain go on until all is final: the jobs' states."""
    for _ in range(4):
        await order(engine.node, "evm_mine")
        await engine.reconciler.tick()
    return [await engine.plane.state(attempt.job_id) for attempt in attempts]


def control(engine: Engine) -> LineageControl:
    return LineageControl(engine.plane.database, CHAIN_ID, ENVIRONMENT)


async def wish(engine: Engine, act: Any, named: UUID | bytes) -> Any:
    return await control(engine).request(act, named, "ada", "a test")
