"""SIGKILL at the steps of lanes and worlds that are not as they should be (PRF-2, TX-9, TX-14)."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from rpc import methods
from rpc.reads import Call
from tayho.kernel.address import Address
from tayho.local.development import deploy
from tayho.protocol import artifacts
from tests.crash.halted import act, until_unready
from tests.crash.scenes import FIRST, GATE, GATE_FOR, GATE_OPEN, POOR_WEI, RICH_WEI, SECOND
from tests.crash.test_every_step import LANE_STEPS
from tests.crash.world import World
from tests.services.chain import LocalChain, local_chain
from tests.waiting import until

pytestmark = [pytest.mark.crash, pytest.mark.services]

# No deeper than the confirmations of the replicas, so that what others used is final within seconds.
SHALLOW = {"TX_REORG_LOOKBACK_BLOCKS": "4"}


@pytest.fixture
def chain() -> Iterator[LocalChain]:
    """A node of this test's own: its accounts are emptied, and its chain may begin anew."""
    with local_chain() as running:
        yield running


async def _told(crashing: World, method: str, *parameters: object) -> Any:
    return await crashing.node.ask(Call(method, parameters, lambda answer: answer, is_write=True))


async def _rows(crashing: World, sql: str) -> list[tuple[Any, ...]]:
    async with crashing.database.connection() as connection:
        return [tuple(row.values()) for row in await connection.fetch(sql)]


async def _findings(crashing: World) -> list[str]:
    return [kind for (kind,) in await _rows(crashing, "SELECT kind FROM transactions.findings ORDER BY finding_id")]


async def _until_rows(crashing: World, sql: str, expected: object, what: str) -> None:
    async def reached() -> bool:
        return await _rows(crashing, sql) == expected

    await until(reached, seconds=40, what=what)


async def _all_complete(crashing: World, job_ids: list[UUID]) -> None:
    assert set((await crashing.await_all_ended(job_ids)).values()) == {"completed"}
    assert set((await crashing.effects(job_ids)).values()) == {1}
    await crashing.check()


async def _use_elsewhere(crashing: World, signer: Address, count: int) -> None:
    """Transactions of the signer that no replica knows of; the node holds its key."""
    for _ in range(count):
        await _told(crashing, "eth_sendTransaction", {"from": str(signer), "to": str(signer), "value": "0x0"})


async def test_killed_after_a_lane_ran_dry_the_others_carry_the_work(crashing: World) -> None:
    """Goal: a lane's standing and its findings are one, and told once. Method: a signer is emptied; the replica that
    closes its lane dies; another works on with the other lane; filled again, the lane opens."""
    await _told(crashing, "anvil_setBalance", str(FIRST), hex(POOR_WEI))
    await crashing.await_death(await crashing.start(crash_at="lane.after_state"))
    assert await _findings(crashing) == ["low_balance", "underfunded"]
    await crashing.start()
    await _all_complete(crashing, await crashing.enqueue("dry", 3))
    assert {signer for (signer,) in await _rows(crashing, "SELECT signer FROM transactions.lineages")} == {SECOND.value}
    await _told(crashing, "anvil_setBalance", str(FIRST), hex(RICH_WEI))
    await _until_rows(crashing, "SELECT DISTINCT state FROM transactions.lanes", [("open",)], "the lane to open")
    assert await _findings(crashing) == ["low_balance", "underfunded", "funded"]


async def test_killed_after_a_fence_passed_foreign_nonces_none_is_lost(crashing: World) -> None:
    """Goal: fence, rows and finding are one. Method: a replica works; its signer is used elsewhere twice; it dies right
    after the fence has passed them; another goes on behind them."""
    doomed = await crashing.start(crash_at="lane.after_foreign", **SHALLOW)
    await _all_complete(crashing, await crashing.enqueue("before", 2))
    await _use_elsewhere(crashing, FIRST, 2)
    await crashing.await_death(doomed)
    assert await _rows(crashing, "SELECT count(*) FROM transactions.foreign_nonces") == [(2,)]
    assert await _findings(crashing) == ["foreign_nonce"]
    await crashing.start(**SHALLOW)
    await _all_complete(crashing, await crashing.enqueue("after", 4))
    assert await _findings(crashing) == ["foreign_nonce"]


async def test_killed_after_a_halt_or_its_adoption_each_stands(crashing: World) -> None:
    """Goal: a halt outlives whoever raised it, and so does its end. Method: a signer is used elsewhere while nobody
    runs; the replica that finds out dies; the next is unready, with the evidence and the commands, and a job waits; the
    operator's process dies at its commit; the replica works on, and the nonces are accounted for."""
    before = await crashing.start()
    done = await crashing.enqueue("before", 2)
    await _all_complete(crashing, done)
    before.kill()
    await _use_elsewhere(crashing, FIRST, 2)
    await crashing.await_death(await crashing.start(crash_at="halt.after_raise"))
    waiting = await crashing.enqueue("waiting", 2)
    sends = await _rows(crashing, "SELECT count(*) FROM transactions.broadcasts")
    unready = await crashing.start()
    await until_unready(unready, "chain_ahead", "chain_nonce", "tayho world adopt automation", "tayho world restart")
    await crashing.await_state(waiting[0], "retry")
    assert await _rows(crashing, "SELECT count(*) FROM transactions.broadcasts") == sends
    await act(crashing, "adopt", crash_at="world.after_adopt")
    assert await _rows(crashing, "SELECT resolution, resolved_by FROM transactions.halts") == [("adopted", "ada")]
    await _all_complete(crashing, [*done, *waiting])
    assert await _rows(crashing, "SELECT count(*) FROM transactions.foreign_nonces") == [(2,)]


async def test_killed_after_a_restart_of_the_world_jobs_flow_in_it(crashing: World) -> None:
    """Goal: the new world is whole or not there. Method: a replica works, and is killed; the chain begins anew; the
    next replica halts; the operator's process dies at the commit of the restart; jobs complete in the new chain."""
    before = await crashing.start()
    await _all_complete(crashing, await crashing.enqueue("before", 2))
    before.kill()
    first = await crashing.node.ask(methods.block_by_number(0))

    async def is_another() -> bool:
        await _told(crashing, "anvil_reset")
        return await crashing.node.ask(methods.block_by_number(0)) != first

    await until(is_another, seconds=5, what="a chain with another first block")
    unready = await crashing.start()
    await until_unready(unready, "chain_reset", "tayho world restart automation")
    await act(crashing, "restart", crash_at="world.after_restart")
    assert await deploy(crashing.node, artifacts.load("Counter").bytecode) == crashing.contract
    after = await crashing.enqueue("after", 3)
    assert set((await crashing.await_all_ended(after)).values()) == {"completed"}
    assert set((await crashing.effects(after)).values()) == {1}
    assert await _rows(crashing, "SELECT DISTINCT world FROM transactions.lanes") == [(2,)]


async def test_killed_after_a_halt_ended_by_itself_the_next_works(crashing: World) -> None:
    """Goal: what is gone stays gone. Method: the anchor is one that the node has not, then it has; the replica dies at
    the end of the halt; another works."""
    doomed = await crashing.start(crash_at="halt.after_resolve")
    await _all_complete(crashing, await crashing.enqueue("before", 1))
    ((number, block_hash),) = await _rows(
        crashing, "SELECT anchor_block_number, anchor_block_hash FROM transactions.pools"
    )
    await _set_anchor(crashing, 10**6, b"\x01" * 32)
    await _until_rows(crashing, "SELECT kind FROM transactions.halts", [("chain_reset",)], "the halt")
    await _set_anchor(crashing, number, block_hash)
    await crashing.await_death(doomed)
    assert await _rows(crashing, "SELECT resolution FROM transactions.halts") == [("gone",)]
    await crashing.start()
    await _all_complete(crashing, await crashing.enqueue("after", 2))


async def _set_anchor(crashing: World, number: int, block_hash: bytes) -> None:
    async with crashing.database.connection() as connection:
        await connection.execute(
            "UPDATE transactions.pools SET anchor_block_number = $1, anchor_block_hash = $2", number, block_hash
        )


async def test_killed_after_a_lane_was_blocked_or_reopened_its_jobs_complete(crashing: World) -> None:
    """Goal: the job that found the lane blocked is not lost with its finder, nor the lane. Method: a contract lets in
    one signer; the replica that blocks the other's lane dies; another completes the jobs; the contract lets all in; the
    replica that opens the lane dies; another completes one more."""
    await _told(crashing, "anvil_setCode", str(GATE), GATE_FOR.format(FIRST.value.hex()))
    job_ids = await _gated(crashing, "gated", 3)
    await crashing.await_death(await crashing.start(crash_at="lane.after_block"))
    assert await _rows(crashing, "SELECT signer FROM transactions.lanes WHERE state = 'blocked'") == [(SECOND.value,)]
    healthy = await crashing.start()
    assert set((await crashing.await_all_ended(job_ids)).values()) == {"completed"}
    healthy.kill()
    await _told(crashing, "anvil_setCode", str(GATE), GATE_OPEN)
    job_ids += await _gated(crashing, "open", 1)
    await crashing.await_death(await crashing.start(crash_at="lane.after_reopen"))
    assert await _findings(crashing) == ["blocked", "unblocked"]
    await crashing.start()
    assert set((await crashing.await_all_ended(job_ids)).values()) == {"completed"}
    await crashing.check()


async def _gated(crashing: World, key: str, count: int) -> list[UUID]:
    """Jobs that call the gate; with an event of their own they are none whose effect is counted."""
    event = f"0x{os.urandom(32).hex()}"
    return await crashing.enqueue(key, count, contract=str(GATE), job=event)


def test_every_step_of_a_lane_is_died_at() -> None:
    """Goal: a new step cannot stay untested. Method: the tests above name each."""
    text = Path(__file__).read_text()
    assert [step for step in LANE_STEPS if f'crash_at="{step}"' not in text] == []
