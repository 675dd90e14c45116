"""What the tests of lanes and worlds do to a node of their own, and read of the database."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from attrs import evolve

from rpc import methods
from rpc.reads import Call as Question
from tayho.kernel.address import Address
from tayho.kernel.jobs import Attempt, Outcome
from tayho.kinds import Call
from tayho.transactions.executor import execute_or_postpone
from tayho.transactions.lane_watch import LaneWatch
from tayho.transactions.lanes import lanes_of_pool
from tayho.transactions.types import LaneStatus
from tayho.voters import truth_of
from tests.transactions.conftest import Engine, any_call
from tests.transactions.test_executor import Kind

LOOKBACK = 3


async def told(engine: Engine, method: str, *parameters: object) -> Any:
    """Ask the node what only a test may ask."""
    return await engine.node.ask(Question(method, parameters, lambda answer: answer, is_write=True))


async def mine(engine: Engine, blocks: int = 1) -> None:
    await told(engine, "anvil_mine", hex(blocks))


async def use_elsewhere(engine: Engine, signer: Address, count: int = 1) -> None:
    """Transactions of the signer that nobody here knows of; the node holds its key."""
    for _ in range(count):
        await told(engine, "eth_sendTransaction", {"from": str(signer), "to": str(signer), "value": "0x0"})


def watch_of(engine: Engine) -> LaneWatch:
    """A replica's watch, whose reorganisations reach LOOKBACK blocks."""
    settings = evolve(engine.settings, reorg_lookback_blocks=LOOKBACK)
    return LaneWatch(
        engine.plane.database, engine.plane.coordination, truth_of([engine.node]), engine.executor.halts, settings
    )


async def look(engine: Engine, watch: LaneWatch | None = None) -> None:
    """One step of a watch at the node's head."""
    header = await engine.node.ask(methods.block_by_number("latest"))
    assert header is not None
    await (watch or watch_of(engine)).step(header)


async def lanes(engine: Engine) -> dict[Address, LaneStatus]:
    return {lane.signer: lane for lane in await lanes_of_pool(engine.plane.database, engine.settings)}


async def findings(engine: Engine) -> list[tuple[str, dict[str, Any]]]:
    async with engine.plane.database.connection() as connection:
        rows = await connection.fetch("SELECT kind, detail FROM transactions.findings ORDER BY finding_id")
    return [(row["kind"], row["detail"]) for row in rows]


async def rows(engine: Engine, sql: str, *arguments: object) -> list[tuple[Any, ...]]:
    async with engine.plane.database.connection() as connection:
        return [tuple(row.values()) for row in await connection.fetch(sql, *arguments)]


async def execute(engine: Engine, attempt: Attempt, call: Call | None = None) -> Outcome:
    return await execute_or_postpone(engine.executor, Kind(call or any_call()), await engine.job(attempt), attempt)


async def states(engine: Engine, attempts: Sequence[Attempt]) -> list[str]:
    return [await engine.plane.state(attempt.job_id) for attempt in attempts]


async def taken_over(engine: Engine, attempt: Attempt) -> Attempt:
    begun = await engine.plane.begin(attempt.job_id, await engine.plane.worker())
    assert begun.attempt is not None
    return begun.attempt
