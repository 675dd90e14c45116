"""Stuck, bumped, capped, held, sent again and mined, on a node that counts a tenth more of both fees (TX-7)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from structlog.testing import capture_logs

from rpc import methods
from tayho.kernel.address import Address
from tests.services import hardhat
from tests.services.chain import LocalChain
from tests.services.launch import launched
from tests.transactions.conftest import FEE_WEI_MAX, Engine
from tests.transactions.replacements import events, finish, lineage, members, order, replacing, rows, sent, step

GWEI = 10**9


@pytest.fixture(scope="module")
def chain() -> Iterator[LocalChain]:
    """Hardhat. The reference counter is not on it."""
    with launched(hardhat.prepare) as server:
        yield LocalChain(server, Address(b"\x77" * 20))


@pytest.mark.parametrize("basis_points", [1_000, 1_250])
async def test_from_stuck_to_mined_across_the_ceiling(engine: Engine, basis_points: int) -> None:
    """Goal: TX-7 from end to end on the strictest rule. Method: no block takes it: it is bumped by what nodes ask at
    least, or by the default, and the node takes each; the base fee rises above the ceiling: a hold, an alert, and what
    the pool dropped is sent again, byte for byte; the base fee falls, and the newest is mined. One effect, one job."""
    node = engine.node
    await order(node, "evm_setAutomine", False)
    (attempt,) = await sent(engine, 1)
    rounds = replacing(engine, fee_bump_basis_points=basis_points)
    for _ in range(3):
        await step(engine, rounds)
    signed = await members(engine, attempt)
    assert [one["state"] for one in signed] == ["replaced"] * 3 + ["broadcast"]
    answers = await rows(engine, "SELECT answer FROM transactions.broadcasts ORDER BY broadcast_id")
    assert [row["answer"] for row in answers] == ["accepted"] * 4

    await order(node, "hardhat_setNextBlockBaseFeePerGas", hex(FEE_WEI_MAX + GWEI))
    await order(node, "evm_mine")
    with capture_logs() as lines:
        for _ in range(2):
            await step(engine, rounds)
    assert [line["log_level"] for line in lines if line["event"] == "lineage_held"] == ["warning"]
    assert (await lineage(engine, attempt))["hold"] == "fee_capped"
    newest = signed[-1]["tx_hash"]
    await order(node, "hardhat_dropTransaction", f"0x{newest.hex()}")
    assert await node.ask(methods.transaction_by_hash(newest)) is None
    await engine.reconciler.tick()
    assert await node.ask(methods.transaction_by_hash(newest)) is not None

    await order(node, "hardhat_setNextBlockBaseFeePerGas", hex(GWEI))
    assert await finish(engine, [attempt]) == ["completed"]
    assert [one["state"] for one in await members(engine, attempt)] == ["replaced"] * 3 + ["mined"]
    assert await events(engine, attempt) == ["replaced"] * 3 + ["held", "released", "mined"]
    assert (await lineage(engine, attempt))["hold"] is None
    await order(node, "evm_setAutomine", True)


async def test_a_cancellation_is_taken_too(engine: Engine) -> None:
    """Goal: the transfer of nothing outbids the call. Method: a wish; one round; it is mined."""
    await order(engine.node, "evm_setAutomine", False)
    (attempt,) = await sent(engine, 1)
    async with engine.plane.database.connection() as connection:
        await connection.execute("UPDATE transactions.lineages SET cancel_requested_at = now()")
    await step(engine, replacing(engine, stuck_seconds=3_600))
    assert await finish(engine, [attempt]) == ["dead"]
    assert (await lineage(engine, attempt))["state"] == "cancelled"
    await order(engine.node, "evm_setAutomine", True)
