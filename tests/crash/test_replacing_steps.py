"""SIGKILL while a stuck transaction is replaced, held or cancelled: one effect or none, as decided (PRF-2)."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from uuid import UUID

import pytest
import trio

from rpc.reads import Call
from tayho.faults import CRASH_AT
from tayho.transactions.module import LineageControl
from tests.crash.world import ENVIRONMENT, World
from tests.services.chain import CHAIN_ID, LocalChain, local_chain

pytestmark = [pytest.mark.crash, pytest.mark.services]

STUCK = {"TX_STUCK_SECONDS": "2"}
PATIENT = {"TX_STUCK_SECONDS": "3600"}
SCRIPT = """
import os, sys, trio
from uuid import UUID
from nursery.asyncio_bridge import open_bridge
from storage.database import Database
from tayho.faults import arm_from
from tayho.transactions.module import LineageControl
async def main():
    url, chain_id, environment, job_id = sys.argv[1], int(sys.argv[2]), sys.argv[3], UUID(sys.argv[4])
    arm_from(os.environ, environment)
    async with open_bridge(), Database.open(url, pool_size=1, application_name='operator') as database:
        await LineageControl(database, chain_id, environment).request('cancel', job_id, 'ada', 'a test')
trio.run(main)
"""


@pytest.fixture(scope="module")
def chain() -> Iterator[LocalChain]:
    """A node whose blocks can be stopped and started again."""
    with local_chain(block_seconds=1) as running:
        yield running


async def _order(crashing: World, method: str, *params: object) -> None:
    await crashing.node.ask(Call(method, params, lambda _: None, is_write=True))


@asynccontextmanager
async def _no_blocks(crashing: World) -> AsyncGenerator[None]:
    await _order(crashing, "evm_setIntervalMining", 0)
    try:
        yield
    finally:
        await _order(crashing, "evm_setIntervalMining", 1)


async def _wish(crashing: World, job_id: UUID) -> None:
    await LineageControl(crashing.database, CHAIN_ID, ENVIRONMENT).request("cancel", job_id, "ada", "a test")


async def _kinds_of_members(crashing: World) -> list[bool]:
    async with crashing.database.connection() as connection:
        rows = await connection.fetch("SELECT is_cancellation FROM transactions.members ORDER BY member_number")
    return [row["is_cancellation"] for row in rows]


@pytest.mark.parametrize("step", ["replace.after_sign", "replace.after_persist", "replace.after_send"])
async def test_killed_while_it_replaces_the_job_takes_effect_once(crashing: World, step: str) -> None:
    """Goal: a replacement is whole, or not there, and in no case another effect. Method: no blocks; the replica dies at
    the step of a stuck transaction; another goes on; blocks again."""
    job_ids = await crashing.enqueue(step, 2)
    async with _no_blocks(crashing):
        await crashing.await_death(await crashing.start(crash_at=step, **STUCK))
        await crashing.check()
        await crashing.start(**STUCK)
    assert set((await crashing.await_all_ended(job_ids)).values()) == {"completed"}
    assert set((await crashing.effects(job_ids)).values()) == {1}
    await crashing.check()


async def test_killed_after_it_held_a_lineage_it_is_mined_all_the_same(crashing: World) -> None:
    """Goal: a hold stops bumping and nothing else. Method: no blocks and one replacement allowed; the replica dies when
    it has held the lineage; another goes on; blocks again."""
    job_ids = await crashing.enqueue("held", 1)
    async with _no_blocks(crashing):
        doomed = await crashing.start(crash_at="hold.after_change", TX_MAX_REPLACEMENTS="1", **STUCK)
        await crashing.await_death(doomed)
        async with crashing.database.connection() as connection:
            assert await connection.fetchval("SELECT hold FROM transactions.lineages") == "replacements_spent"
        await crashing.start(**PATIENT)
    assert set((await crashing.await_all_ended(job_ids)).values()) == {"completed"}
    assert set((await crashing.effects(job_ids)).values()) == {1}
    await crashing.check()


@pytest.mark.parametrize("is_beside", [False, True], ids=["alone", "beside_a_living_replica"])
async def test_killed_after_a_wish_the_wish_stands(crashing: World, database_url: str, is_beside: bool) -> None:
    """Goal: what an operator was told nothing of is recorded or not, and asking again is harmless. Method: no blocks; a
    transaction is out; the operator dies after the commit, and another asks the same; a replica, which lived throughout
    or came afterwards, cancels it once."""
    (job_id,) = await crashing.enqueue("unwanted", 1)
    async with _no_blocks(crashing):
        replica = await crashing.start(**PATIENT)
        await crashing.await_state(job_id, "confirming")
        if not is_beside:
            replica.kill()
        arguments = [sys.executable, "-c", SCRIPT, database_url, str(CHAIN_ID), ENVIRONMENT, str(job_id)]
        environment = {**os.environ, CRASH_AT: "replace.after_wish"}
        died = await trio.run_process(arguments, env=environment, check=False, capture_stderr=True)
        assert died.returncode == -9, died.stderr.decode()
        await _wish(crashing, job_id)
        carrying_out = replica if is_beside else await crashing.start(**PATIENT)
        await crashing.await_word(carrying_out, "lineage_replaced")
    assert await crashing.await_all_ended([job_id]) == {job_id: "dead"}
    assert await crashing.effects([job_id]) == {job_id: 0}
    assert await _kinds_of_members(crashing) == [False, True]
    await crashing.check()


async def test_killed_after_an_unsigned_one_was_cancelled_the_lane_goes_on(crashing: World) -> None:
    """Goal: nonce and job end together. Method: a replica dies having allocated; nobody delivers the job again; the
    wish; the next one dies when it has given the allocation up; others use the lanes."""
    (job_id,) = await crashing.enqueue("unwanted", 1)
    await crashing.await_death(await crashing.start(crash_at="journal.after_allocate"))
    async with crashing.database.connection() as connection:
        await connection.execute("UPDATE coordination.outbox SET due_at = now() + interval '1 hour'")
    await crashing.flushall()
    await _wish(crashing, job_id)
    await crashing.await_death(await crashing.start(crash_at="replace.after_abandon"))
    await crashing.check()
    wanted = await crashing.enqueue("wanted", 4)
    await crashing.start()
    states = await crashing.await_all_ended([job_id, *wanted])
    assert states.pop(job_id) == "dead"
    assert set(states.values()) == {"completed"}
    assert await crashing.effects([job_id]) == {job_id: 0}
    await crashing.check()
