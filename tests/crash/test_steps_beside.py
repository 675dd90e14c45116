"""SIGKILL at every named step of a transaction's way while another replica lives (PRF-2)."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping

import pytest
import trio

from tayho.kernel.steps import STEPS
from tests.crash import scenes
from tests.crash.scenes import LOOKBACK_BLOCKS, Scene, Stage
from tests.crash.test_every_step import ORDINARY
from tests.crash.world import RECONCILE_SECONDS, World
from tests.invariants import Foreign, check_always, check_invariants
from tests.services.chain import LocalChain, local_chain
from tests.waiting import until

pytestmark = [pytest.mark.crash, pytest.mark.services]

# For how long two replicas are given, again and again, what one of them is to die over.
DEATH_SECONDS = 120
SHALLOW = {"TX_REORG_LOOKBACK_BLOCKS": str(LOOKBACK_BLOCKS)}
# It looks half as often, so that most of what heals falls to the one that is to die over it.
LIVING = {"TX_RECONCILE_SECONDS": str(2 * RECONCILE_SECONDS)}
# Steps of the delivery, of scanners and of intents alone: every other is of a transaction's way.
OF_DELIVERY = ("enqueue", "publish", "intake", "attempt", "delivery", "control", "worker", "retention", "schedule")
OF_WORK_FOUND = ("scan", "intent", "batch")
# An operator's process dies there, never a replica; where each has a test, replicas run beside it.
OF_OPERATORS = {
    *("world.after_adopt", "world.after_restart", "replace.after_wish"),
    *(step for step in STEPS if step.startswith("rotation.")),
}
# Only a kind that cannot read its own receipt comes there: tests/crash/test_batch_steps.py has one.
OF_BLIND_KINDS = {"results.after_hold"}
TRANSACTIONAL = (
    {step for step in STEPS if not step.startswith((*OF_DELIVERY, *OF_WORK_FOUND))} - OF_OPERATORS - OF_BLIND_KINDS
)
# By what each step is reached that jobs alone do not reach.
STAGED: dict[str, Scene] = {
    "world.after_anchor": scenes.growth,
    "reorg.after_boundary": scenes.growth,
    "replace.after_sign": scenes.stuck,
    "replace.after_persist": scenes.stuck,
    "replace.after_send": scenes.stuck,
    "hold.after_change": scenes.stuck,
    "reconcile.after_rebroadcast": scenes.dropped,
    "reorg.after_record": scenes.taken_back,
    "reorg.after_revive": scenes.taken_back,
    "supersede.after_decide": scenes.overtaken,
    "supersede.after_hold": scenes.overtaken_long_ago,
    "journal.after_abandon": scenes.given_up,
    "replace.after_abandon": scenes.cancelled_unsigned,
    "lane.after_state": scenes.dry,
    "lane.after_foreign": scenes.used_elsewhere,
    "lane.after_block": scenes.gated,
    "lane.after_reopen": scenes.let_in,
    "halt.after_raise": scenes.misplaced,
    "halt.after_resolve": scenes.misplaced,
}
LOADED = sorted(TRANSACTIONAL - set(STAGED))
# Steps that one world sees one after the other.
GROUPS: dict[str, list[str]] = {
    "load one": LOADED[0::2],
    "load two": LOADED[1::2],
    "stuck": [step for step, scene in STAGED.items() if scene is scenes.stuck],
    "unsigned": ["journal.after_abandon", "replace.after_abandon"],
    "chain": [step for step in STAGED if step.startswith(("reorg", "reconcile", "world"))],
    "nonces": [step for step in STAGED if step.startswith(("supersede", "lane.after_foreign"))],
    "lanes": ["lane.after_state", "lane.after_block", "lane.after_reopen"],
    "halts": ["halt.after_raise", "halt.after_resolve"],
}
VARIABLES: Mapping[str, Mapping[str, str]] = {"stuck": scenes.STUCK}


@pytest.fixture
def chain() -> Iterator[LocalChain]:
    """A node of this test's own: its blocks are stopped and taken back, its accounts emptied."""
    with local_chain(block_seconds=1) as running:
        yield running


@pytest.mark.parametrize("group", GROUPS)
async def test_killed_beside_a_living_replica_every_job_ends_once(crashing: World, group: str) -> None:
    """Goal: who takes over while the dead one's locks, leases and sends are still warm loses and doubles nothing.
    Method: one replica lives throughout; for each step of the group another dies at it over what both share; nobody is
    started afterwards; I1 to I6 and I9 are asked of database and chain, at the death and when all is at rest."""
    stage = Stage(crashing, {**SHALLOW, **VARIABLES.get(group, {})})
    living = await crashing.start(**{**stage.variables, **LIVING})
    await crashing.await_word(living, "started")
    async with trio.open_nursery() as blocks:
        blocks.start_soon(stage.make_blocks)
        for step in GROUPS[group]:
            began_at = trio.current_time()
            rounds = await _die_at(stage, step)
            await _come_to_rest(stage)
            sys.stderr.write(f"{step}: {trio.current_time() - began_at:.1f} s, {rounds} rounds\n")
        blocks.cancel_scope.cancel()


async def _die_at(stage: Stage, step: str) -> int:
    """Play the step's scene until the replica that is to die there has died; how often that was."""
    doomed = stage.doomed = await stage.world.start(crash_at=step, **stage.variables)
    doomed.is_expected_to_end = True
    await until(
        lambda: doomed.process.poll() is not None or '"started"' in doomed.log.read_text(),
        seconds=90,
        what="a second replica",
    )
    rounds = 0
    give_up_at = trio.current_time() + DEATH_SECONDS
    while doomed.process.poll() is None and trio.current_time() < give_up_at:
        rounds += 1
        await STAGED.get(step, scenes.load)(stage)
    await stage.world.await_death(doomed, seconds=1)
    world, foreign = stage.world, Foreign(dict.fromkeys(stage.foreign, (b"", -1)))
    await check_always(world.database, world.node, world.contract, foreign)
    return rounds


async def _come_to_rest(stage: Stage) -> None:
    """All that was asked has ended as it may, the lanes go on, and nothing is left open."""
    world = stage.world
    await stage.enqueue(2)
    states = await world.await_all_ended([*stage.wanted, *stage.disputed, *stage.overtaken])

    async def nothing_is_open() -> bool:
        return not await stage.rows(
            "SELECT FROM transactions.lineages WHERE state IN ('allocated', 'signed', 'broadcast')"
        )

    await until(nothing_is_open, seconds=60, what="every lineage to end")
    states = await world.await_all_ended([*stage.wanted, *stage.disputed, *stage.overtaken])
    assert {states[job_id] for job_id in stage.wanted} == {"completed"}
    assert {states[job_id] for job_id in stage.overtaken} <= {"dead"}
    assert set((await world.effects(stage.overtaken)).values()) <= {0}
    await check_invariants(world.database, world.node, world.contract, foreign=stage.foreign)


def test_every_step_of_a_transaction_is_died_at_beside_a_living_replica() -> None:
    """Goal: a new step cannot stay untested. Method: the steps come from STEPS; each is in one group or an operator's,
    and none that jobs alone do not reach is without a scene."""
    grouped = [step for steps in GROUPS.values() for step in steps]
    assert sorted(grouped) == sorted(TRANSACTIONAL)
    assert OF_OPERATORS <= STEPS
    assert set(LOADED) <= set(ORDINARY)
