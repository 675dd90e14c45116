"""SIGKILL where a replica heals what the chain took back, or what another's transaction took away (PRF-2, TX-6)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

import pytest

from rpc import methods
from rpc.quantities import hash32
from rpc.reads import Call
from tests.crash.world import World
from tests.invariants import check_invariants
from tests.waiting import until

pytestmark = [pytest.mark.crash, pytest.mark.services]


async def _ask(world: World, method: str, *params: object) -> Any:
    return await world.node.ask(Call(method, params, lambda answer: answer, is_write=True))


async def _value(world: World, sql: str, *arguments: object) -> Any:
    async with world.database.connection() as connection:
        return await connection.fetchval(sql, *arguments)


async def _take_back(world: World, job_ids: Sequence[UUID]) -> None:
    """Replace every block from the first that one of the jobs is in, while nobody looks."""
    lowest = await _value(
        world,
        "SELECT min(included_block_number) FROM transactions.lineages WHERE job_id = ANY ($1::uuid[])",
        list(job_ids),
    )
    head = await world.node.ask(methods.block_number())
    await _ask(world, "anvil_reorg", head - lowest + 2, [])


@pytest.mark.parametrize("step", ["reorg.after_record", "reorg.after_revive"])
async def test_killed_while_it_revives_every_job_completes_once(crashing: World, step: str) -> None:
    """Goal: TX-6: the signal first, then all of the revival or nothing. Method: three jobs complete; their blocks are
    replaced while no replica runs; the one that finds it dies at the step; another goes on: each took effect once."""
    job_ids = await crashing.enqueue("key", 3)
    healthy = await crashing.start()
    assert set((await crashing.await_all_ended(job_ids)).values()) == {"completed"}
    healthy.kill()
    await _take_back(crashing, job_ids)
    await crashing.await_death(await crashing.start(crash_at=step))
    assert await _value(crashing, "SELECT count(*) FROM transactions.reorganisations") >= 1
    await crashing.start()

    async def all_were_revived() -> bool:
        return await _value(crashing, "SELECT count(*) FROM transactions.events WHERE kind = 'un_mined'") == 3

    await until(all_were_revived, seconds=30, what="the jobs to be revived")
    assert set((await crashing.await_all_ended(job_ids)).values()) == {"completed"}
    assert set((await crashing.effects(job_ids)).values()) == {1}
    await crashing.check()


@pytest.mark.parametrize("step", ["supersede.after_decide", "supersede.after_hold"])
async def test_killed_while_it_supersedes_the_lane_goes_on(crashing: World, step: str) -> None:
    """Goal: one decision, whoever dies over it. Method: a replica dies with signed bytes that no node has; the same key
    is used for another transaction at that nonce, for the hold's step so long ago that nobody can say which; the
    next replica dies at the step; a third ends the job once, and the lane's next jobs complete."""
    (job_id,) = await crashing.enqueue("overtaken", 1)
    await crashing.await_death(await crashing.start(crash_at="journal.after_persist"))
    signer = await _value(crashing, "SELECT signer FROM transactions.lineages")
    parameters = {"from": f"0x{signer.hex()}", "to": f"0x{'99' * 20}"}
    foreign = await crashing.node.ask(Call("eth_sendTransaction", (parameters,), hash32, is_write=True))
    await _ask(crashing, "anvil_mine", hex(100 if step == "supersede.after_hold" else 5))
    await crashing.await_death(await crashing.start(crash_at=step))
    await crashing.start()
    assert await crashing.await_all_ended([job_id]) == {job_id: "dead"}
    record = await crashing.record(job_id)
    assert isinstance(record.last_error, dict)
    assert record.last_error["type"] == "Superseded"
    found = await _value(crashing, "SELECT count(*) FROM transactions.findings WHERE kind = 'superseded'")
    assert found == 1
    later = await crashing.enqueue("later", 4)
    assert set((await crashing.await_all_ended(later)).values()) == {"completed"}
    assert set((await crashing.effects([*later])).values()) == {1}
    assert await crashing.effects([job_id]) == {job_id: 0}
    await check_invariants(crashing.database, crashing.node, crashing.contract, foreign=[foreign])
