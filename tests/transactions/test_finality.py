"""What was final and changes halts the pool, across restarts, until an operator has judged (TX-6, I9)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from rpc.errors import FinalityViolated
from tayho.transactions.halts import Halts
from tests.services.chain import LocalChain, local_chain
from tests.transactions.conftest import Engine
from tests.transactions.healing import LOOKBACK, Effect, Healing


@pytest.fixture(scope="module")
def chain() -> Iterator[LocalChain]:
    """A node of this module's own: its past is not safe."""
    with local_chain(block_seconds=None) as running:
        yield running


@pytest.fixture
async def healing(engine: Engine) -> Healing:
    """Far enough from the chain's beginning that a reorganisation spares the contract."""
    world = Healing.of(engine)
    await world.mine(2 * LOOKBACK)
    return world


async def test_what_was_final_and_changed_halts_the_pool(healing: Healing) -> None:
    """Goal: must-show 3, below finality. Method: a job completes and is `LOOKBACK` deep; then its block is replaced.
    The process says so and halts the pool; no job ends, nothing is revived, and a new process does nothing either."""
    replica = healing.replica()
    (effect,) = await healing.completed(replica, 1)
    await healing.mine(LOOKBACK + 1)
    await replica.tick()
    (boundary,) = await healing.rows("SELECT * FROM transactions.boundaries")
    assert boundary["block_number"] == await healing.head() - LOOKBACK
    await healing.take_back(effect)
    with pytest.raises(FinalityViolated):
        await replica.tick()
    (halt,) = await replica.halts.open()
    assert halt.kind == "finality_violated"
    assert halt.evidence["final_hash"] == f"0x{boundary['block_hash'].hex()}"
    await _nothing_moves(healing, effect)


async def test_a_restart_does_not_forget_what_is_final(healing: Healing) -> None:
    """Goal: the boundary outlives the process. Method: as above, but the block changes while nothing runs; the process
    that begins then finds it before it ends anything."""
    replica = healing.replica()
    (effect,) = await healing.completed(replica, 1)
    await healing.mine(LOOKBACK + 1)
    await replica.tick()
    await healing.take_back(effect)
    later = healing.replica(name="two")
    with pytest.raises(FinalityViolated):
        await later.tick()
    (halt,) = await later.halts.open()
    assert (halt.kind, halt.raised_by) == ("finality_violated", "two")
    await _nothing_moves(healing, effect)


async def test_two_heads_are_held_to_one_boundary(healing: Healing) -> None:
    """Goal: what one replica called final binds those that look at it later, though their own memory is empty. Method:
    two run; only the first moves the boundary; then the block changes, and the second alone ticks."""
    first, second = healing.replica(name="one"), healing.replica(name="two")
    await second.tick()
    (effect,) = await healing.completed(first, 1)
    await healing.mine(LOOKBACK + 1)
    await first.tick()
    await healing.take_back(effect)
    with pytest.raises(FinalityViolated):
        await second.tick()
    assert [halt.kind for halt in await second.halts.open()] == ["finality_violated"]


async def _nothing_moves(world: Healing, effect: Effect) -> None:
    """Neither what was final, nor what is new."""
    assert (await world.lineage(effect))["state"] == "mined"
    assert await world.states([effect]) == ["completed"]
    (receipt,) = await world.rows("SELECT orphaned_at FROM transactions.receipts")
    assert receipt["orphaned_at"] is None
    assert not await world.rows("SELECT FROM transactions.reorganisations")
    another = world.replica(name="three")
    await another.tick()
    assert await world.states([effect]) == ["completed"]
    (boundary,) = await world.rows("SELECT moved_by FROM transactions.boundaries")
    assert boundary["moved_by"] == "one"


@pytest.mark.parametrize("is_restarted", [False, True])
async def test_an_operators_word_on_the_chain_stands(healing: Healing, is_restarted: bool) -> None:
    """Goal: who resolves a halt is not contradicted, and I9 holds again. Method: a violation is halted, and resolved;
    the process that found it, or one that begins then, takes the chain as it is: what it lacks is taken back and done,
    and it is not the last violation that is found."""
    replica = healing.replica()
    (effect,) = await healing.completed(replica, 1)
    await healing.mine(LOOKBACK + 1)
    await replica.tick()
    await healing.take_back(effect)
    with pytest.raises(FinalityViolated):
        await replica.tick()
    (halt,) = await replica.halts.open()
    assert await Halts(healing.engine.plane.database, healing.settings).resolve(halt.halt_id, "adopted", "ada")
    later = healing.replica(name="two") if is_restarted else replica
    await later.tick()
    assert await healing.states([effect]) == ["retry"], "the chain as it is has no effect of this job"
    await healing.settle(later, [effect])
    assert not await later.halts.open()
    (another,) = await healing.completed(later, 1, "another")
    await healing.mine(LOOKBACK + 1)
    await later.tick()
    await healing.take_back(another)
    with pytest.raises(FinalityViolated):
        await later.tick()
    assert len(await later.halts.open()) == 1
