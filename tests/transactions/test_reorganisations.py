"""What the chain takes back within the lookback lives again, and takes effect once (TX-6, I9)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
import trio
from attrs import evolve

from rpc import methods
from rpc.errors import NoQuorum
from rpc.values import Header
from tayho.coordination.control.jobs import JobControl
from tayho.coordination.control.types import Deed
from tayho.kernel.jobs import Ended
from tayho.kernel.steps import on_step
from tayho.transactions import reorganising
from tests.coordination.conftest import CHAIN_ID, ENVIRONMENT
from tests.invariants import check_invariants, events_of
from tests.services.chain import LocalChain, local_chain
from tests.transactions.conftest import Engine
from tests.transactions.healing import CONFIRMATIONS, HIGHER, LOOKBACK, Effect, Healing, Replica
from tests.transactions.test_executor import Kind
from tests.transactions.test_liars import three


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


async def _drop(world: Healing, effects: list[Effect], depth: int) -> None:
    """The blocks go, and no pool keeps what was in them."""
    del effects
    await world.reorganise(depth)


async def _mine_again(world: Healing, effects: list[Effect], depth: int) -> None:
    """The same transactions are in other blocks at once, as on a chain whose pool kept them."""
    await world.reorganise(depth, [await world.raw_of(one) for one in effects])


async def _roll_back(world: Healing, effects: list[Effect], depth: int) -> None:
    """The chain ends earlier, and goes on from there without them."""
    del effects
    await world.ask("anvil_rollback", depth)
    await world.ask("evm_increaseTime", 7)
    await world.mine(depth + 1)


@pytest.mark.parametrize("take_back", [_drop, _mine_again, _roll_back])
async def test_a_reorganisation_deeper_than_the_confirmations_completes_once(healing: Healing, take_back: Any) -> None:
    """Goal: must-show 3. Method: three jobs that the chain had ended; their blocks go, in each way in which blocks go;
    one tick gives every job, lineage and receipt back, with the signal on record; then all end once."""
    replica = healing.replica()
    effects = await healing.completed(replica, 3)
    await take_back(healing, effects, CONFIRMATIONS + 3)
    await replica.tick()
    for one in effects:
        assert (await healing.lineage(one))["state"] == "signed"
        (member,) = await healing.members(one)
        assert member["state"] == "signed"
        record = await healing.engine.plane.coordination.inspect(one.job_id)
        assert record is not None
        assert (record.state, record.has_live_lineage, record.result) == ("retry", True, None)
        assert isinstance(record.last_error, dict)
        assert record.last_error["type"] == "UnMined"
        assert await healing.events(one) == ["mined", "un_mined"]
    receipts = await healing.rows("SELECT orphaned_at FROM transactions.receipts")
    assert len(receipts) == 3
    assert all(row["orphaned_at"] is not None for row in receipts)
    signals = await healing.rows("SELECT * FROM transactions.reorganisations ORDER BY block_number")
    assert len(signals) == 3
    assert all(row["old_hash"] != row["new_hash"] and row["found_by"] == "one" for row in signals)
    await healing.settle(replica, effects)
    assert len(await healing.rows("SELECT FROM transactions.receipts")) == 6, "another block is another observation"
    assert not await healing.rows("SELECT FROM transactions.halts")


async def test_the_next_attempt_sends_a_revived_lineage_too(healing: Healing) -> None:
    """Goal: the job's own delivery resumes it (TX-3). Method: after the revival the worker's attempt comes before any
    tick; it sends the same bytes, and nothing is signed anew."""
    replica = healing.replica()
    (effect,) = await healing.completed(replica, 1)
    await healing.reorganise(CONFIRMATIONS + 1)
    await replica.tick()
    plane = healing.engine.plane
    begun = await plane.begin(effect.job_id, await plane.worker(), generation=2)
    assert begun.attempt is not None
    job = evolve(await healing.engine.job(begun.attempt), generation=2)
    assert await healing.engine.executor.execute(Kind(healing.call(effect.event)), job, begun.attempt) == Ended()
    assert await plane.state(effect.job_id) == "confirming"
    assert len(await healing.members(effect)) == 1
    await healing.settle(replica, [effect])


async def test_the_member_with_the_highest_fees_is_revived(healing: Healing) -> None:
    """Goal: TX-6 after replacements. Method: a lineage with three members, of which the first is mined; it goes, and
    the third is sent; the job names the third, and its call took effect once."""
    replica = healing.replica()
    (effect,) = await healing.sent(1)
    second = await healing.add_member(effect)
    third = await healing.add_member(effect, fee=evolve(HIGHER, max_fee_per_gas_wei=60 * 10**9))
    await healing.rows("UPDATE transactions.members SET state = 'broadcast' WHERE tx_hash = $1", third)
    await healing.rows("UPDATE transactions.members SET state = 'replaced' WHERE tx_hash = $1", second)
    await healing.mine(CONFIRMATIONS)
    await replica.tick()
    assert [row["state"] for row in await healing.members(effect)] == ["mined", "replaced", "broadcast"]
    await healing.reorganise(CONFIRMATIONS + 1)
    await replica.tick()
    assert [row["state"] for row in await healing.members(effect)] == ["replaced", "replaced", "signed"]
    await healing.settle(replica, [effect])
    assert [row["state"] for row in await healing.members(effect)] == ["replaced", "replaced", "mined"]
    assert (await healing.receipt(effect)).transaction_hash == third


async def test_whichever_member_is_mined_again_decides(healing: Healing) -> None:
    """Goal: TX-3. Method: of two members the second is revived; the new chain has the first one again: it decides."""
    replica = healing.replica()
    (effect,) = await healing.sent(1)
    await healing.add_member(effect)
    await healing.mine(CONFIRMATIONS)
    await replica.tick()
    await healing.reorganise(CONFIRMATIONS + 1, [await healing.raw_of(effect, 1)])
    await healing.settle(replica, [effect])
    assert [row["state"] for row in await healing.members(effect)] == ["mined", "signed"]


async def test_a_block_that_comes_back_counts_again(healing: Healing) -> None:
    """Goal: flip-flops, and one observation a block. Method: the chain goes to another branch and back to the very same
    block, twice; the job is un-mined and completed as often; the receipt of that block is one row throughout."""
    replica, branches = healing.replica(), _Branches(healing)
    await branches.begin()
    (effect,) = await healing.completed(replica, 1)
    first, raw = await healing.receipt(effect), await healing.raw_of(effect)
    for _ in range(2):
        await branches.other()
        await replica.tick()
        assert await healing.states([effect]) == ["retry"]
        await branches.first(raw)
        assert (await healing.receipt(effect)).block_hash == first.block_hash
        await replica.tick()
        await replica.tick()
        assert await healing.states([effect]) == ["completed"]
    (row,) = await healing.rows("SELECT block_hash, orphaned_at FROM transactions.receipts")
    assert (row["block_hash"], row["orphaned_at"]) == (first.block_hash, None)
    assert await healing.events(effect) == ["mined", "un_mined", "mined", "un_mined", "mined"]
    await healing.settle(replica, [effect])


class _Branches:
    """Two branches from one block: the first has the transaction in a block that is always the same."""

    def __init__(self, world: Healing) -> None:
        self._world = world
        self._snapshot = ""
        self._timestamp = 0
        self._length = CONFIRMATIONS

    async def begin(self) -> None:
        head = await self._world.engine.node.ask(methods.block_by_number("latest"))
        assert head is not None
        self._timestamp = head.timestamp_seconds + 1_000
        self._snapshot = await self._world.ask("evm_snapshot")
        await self._make_the_next_block_the_same()

    async def _make_the_next_block_the_same(self) -> None:
        await self._world.ask("evm_setNextBlockTimestamp", self._timestamp)
        # To go back to a snapshot does not bring its base fee back.
        await self._world.ask("anvil_setNextBlockBaseFeePerGas", hex(10**9))

    async def other(self) -> None:
        await self._back()
        await self._world.mine(self._length)
        await self._world.ask("evm_setAutomine", True)

    async def first(self, raw: str) -> None:
        await self._back()
        await self._make_the_next_block_the_same()
        await self._world.engine.node.ask(methods.send_raw_transaction(bytes.fromhex(raw[2:])))
        await self._world.mine(1)
        await self._world.ask("evm_setAutomine", True)
        await self._world.mine(self._length)

    async def _back(self) -> None:
        """The node mines nothing by itself from here on, and has nothing to mine."""
        await self._world.ask("evm_setAutomine", False)
        assert await self._world.ask("evm_revert", self._snapshot)
        await self._world.ask("anvil_dropAllTransactions")
        self._snapshot = await self._world.ask("evm_snapshot")
        self._length += 2


async def test_a_reorganisation_while_everything_was_down_is_found_at_the_restart(healing: Healing) -> None:
    """Goal: no reorganisation is missed because nobody looked. Method: the blocks go right after the job completed; the
    chain grows far beyond the lookback before another process begins: it was inside the lookback when it was last
    looked at, so it is a reorganisation and no violation."""
    effects = await healing.completed(healing.replica(), 2)
    await healing.reorganise(CONFIRMATIONS + 2)
    await healing.mine(3 * LOOKBACK)
    later = healing.replica(name="two")
    await later.tick()
    assert await healing.states(effects) == ["retry", "retry"]
    await healing.settle(later, effects)
    assert not await healing.rows("SELECT FROM transactions.halts")


async def test_two_replicas_revive_once(healing: Healing) -> None:
    """Goal: replicas that see the same do it once. Method: both have found and recorded it before either revives."""
    replicas = [healing.replica(name="one"), healing.replica(name="two")]
    effects = await healing.completed(replicas[0], 4)
    await replicas[1].tick()
    await healing.reorganise(CONFIRMATIONS + 4)
    head = await healing.engine.node.ask(methods.block_by_number("latest"))
    assert head is not None
    async with trio.open_nursery() as racers:
        for replica in replicas:
            racers.start_soon(replica.tick)
    assert await healing.states(effects) == ["retry"] * 4
    for one in effects:
        assert (await healing.events(one)).count("un_mined") == 1
        record = await healing.engine.plane.coordination.inspect(one.job_id)
        assert record is not None
        assert record.generation == 2
    await healing.settle(replicas[1], effects)


@pytest.mark.parametrize("died_at", ["reorg.after_record", "reorg.after_revive"])
async def test_who_dies_in_between_leaves_the_rest_to_the_next(healing: Healing, died_at: str) -> None:
    """Goal: PRF-2, in this process. Method: the tick ends at the step; a process that begins then goes on: the signal
    is there before anything moved, and after the revival nothing is revived again."""

    class Died(BaseException):
        pass

    def die(name: str) -> None:
        if name == died_at:
            raise Died

    effects = await healing.completed(healing.replica(), 2)
    await healing.reorganise(CONFIRMATIONS + 2)
    on_step(die)
    try:
        with pytest.raises(Died):
            await healing.replica(name="two").tick()
    finally:
        on_step(None)
    moved = "completed" if died_at == "reorg.after_record" else "retry"
    assert await healing.states(effects) == [moved] * 2
    assert len(await healing.rows("SELECT FROM transactions.reorganisations")) == 2
    await healing.settle(healing.replica(name="three"), effects)
    assert [(await healing.events(one)).count("un_mined") for one in effects] == [1, 1]


async def test_many_lineages_are_revived_page_by_page(healing: Healing, monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: a deep reorganisation of a busy chain is many transactions, none of them large, and loses nothing. Method:
    pages of two; seven jobs of seven blocks; one tick revives all, then all complete."""
    monkeypatch.setattr(reorganising, "REVIVE_MAX", 2)
    replica = healing.replica()
    effects = await healing.completed(replica, 7)
    await healing.take_back(effects[0])
    await replica.tick()
    assert await healing.states(effects) == ["retry"] * 7
    await healing.settle(replica, effects, turns=20)
    for one in effects:
        assert await healing.events(one) == ["mined", "un_mined", "mined"]


async def test_the_boundary_never_passes_what_was_not_looked_at(
    healing: Healing, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Goal: the signal before the boundary (TX-6). Method: looks of two blocks; five jobs complete, and their blocks go
    while nothing runs; the chain grows far beyond; however slowly, all are found, and none is called final before."""
    monkeypatch.setattr(reorganising, "BLOCKS_BEYOND", 2 - 2 * LOOKBACK)
    effects = await healing.completed(healing.replica(), 5)
    await healing.take_back(effects[0])
    await healing.mine(3 * LOOKBACK)
    await healing.settle(healing.replica(name="two"), effects, turns=20)
    assert [await healing.events(one) for one in effects] == [["mined", "un_mined", "mined"]] * 5
    assert not await healing.rows("SELECT FROM transactions.halts")


async def test_a_look_reaches_the_head_however_many_blocks_decided(
    healing: Healing, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Goal: a busy chain hides nothing behind its own past. Method: a job in every block, for longer than twice the
    lookback; the newest that is final goes; the very next tick finds it."""
    monkeypatch.setattr(reorganising, "BLOCKS_BEYOND", 1)
    busy = Healing.of(healing.engine, reorg_lookback_blocks=8)
    replica, effects = busy.replica(), list[Effect]()
    for turn in range(20):
        effects += await busy.sent(1, f"turn-{turn}")
        await replica.tick()
    await busy.mine(CONFIRMATIONS)
    await replica.tick()
    assert await busy.states(effects) == ["completed"] * 20
    await busy.reorganise(CONFIRMATIONS + 1)
    await replica.tick()
    assert await busy.states(effects) == ["completed"] * 19 + ["retry"]
    await busy.settle(replica, effects)


async def test_a_reverted_call_may_succeed_in_another_block(healing: Healing) -> None:
    """Goal: a revert is taken back like a success. Method: a member with too little gas is mined and fails, a second
    one has enough; the block goes, and the job that was dead completes."""
    replica = healing.replica()
    (effect,) = await healing.engine.attempts(1)
    await _mined_out_of_gas(healing, replica, one := Effect(effect, bytes([7]) * 32))
    assert await healing.states([one]) == ["dead"]
    await healing.add_member(one)
    await healing.reorganise(CONFIRMATIONS + 1)
    await replica.tick()
    assert await healing.states([one]) == ["retry"]
    await healing.settle(replica, [one])
    assert await healing.events(one) == ["reverted", "un_mined", "mined"]


async def _mined_out_of_gas(world: Healing, replica: Replica, effect: Effect) -> None:
    """The job's lineage with one member, mined and reverted, final."""
    await world.ask("evm_setAutomine", False)
    job = await world.engine.job(effect.attempt)
    assert await world.engine.executor.execute(Kind(world.call(effect.event)), job, effect.attempt) == Ended()
    await world.ask("anvil_dropAllTransactions")
    await world.add_member(effect, gas_limit=30_000, fee=HIGHER)
    await world.ask("evm_setAutomine", True)
    await world.engine.node.ask(methods.send_raw_transaction(bytes.fromhex((await world.raw_of(effect, 2))[2:])))
    await world.mine(CONFIRMATIONS)
    await replica.tick()


async def test_an_operators_cancellation_is_taken_back_and_sent_again(healing: Healing) -> None:
    """Goal: TX-10 across a reorganisation. Method: a cancellation was mined; its block goes; it is the one to be sent,
    the job is dead again by it, and the call took no effect."""
    replica = healing.replica()
    await healing.ask("evm_setAutomine", False)
    (effect,) = await healing.sent(1)
    await healing.ask("anvil_dropAllTransactions")
    cancellation = await healing.add_member(effect, is_cancellation=True)
    await healing.ask("evm_setAutomine", True)
    raw = await healing.raw_of(effect, 2)
    await healing.engine.node.ask(methods.send_raw_transaction(bytes.fromhex(raw[2:])))
    await healing.mine(CONFIRMATIONS)
    await replica.tick()
    assert await healing.states([effect]) == ["dead"]
    await healing.reorganise(CONFIRMATIONS + 1)
    await replica.tick()
    assert await healing.states([effect]) == ["retry"]
    for _ in range(5):
        await replica.tick()
        await healing.mine(1)
    assert await healing.states([effect]) == ["dead"]
    assert (await healing.receipt(effect)).transaction_hash == cancellation
    assert not (await events_of(healing.engine.node, healing.engine.contract))[effect.event]


async def test_a_lineage_whose_job_went_on_without_it_is_disowned(healing: Healing) -> None:
    """Goal: never two effects, and no lane that waits for ever. Method: a reverted job is replayed and owns another
    nonce when its first block goes. Its call is not sent again, nothing of the job changes, the conflict is on record;
    once a cancellation is signed, it fills the nonce, the lane goes on, and ends no job."""
    replica = healing.replica()
    (first,) = await healing.engine.attempts(1)
    await _mined_out_of_gas(healing, replica, effect := Effect(first, bytes([9]) * 32))
    plane = healing.engine.plane
    await JobControl(plane.database, CHAIN_ID, ENVIRONMENT).replay(effect.job_id, Deed("ada", "again"))
    begun = await plane.begin(effect.job_id, await plane.worker(), generation=2)
    assert begun.attempt is not None
    job = evolve(await healing.engine.job(begun.attempt), has_live_lineage=False)
    await healing.ask("evm_setAutomine", False)
    assert await healing.engine.executor.execute(Kind(healing.call(effect.event)), job, begun.attempt) == Ended()
    await healing.ask("evm_setAutomine", True)
    await healing.take_back(effect)
    await replica.tick()
    old, new = await healing.rows("SELECT * FROM transactions.lineages ORDER BY lineage_id")
    assert (old["state"], new["state"]) == ("signed", "broadcast")
    assert old["disowned_at"] is not None
    assert old["cancel_requested_at"] is not None
    assert await plane.state(effect.job_id) == "confirming"
    (finding,) = await healing.rows("SELECT kind, detail FROM transactions.findings")
    assert (finding["kind"], finding["detail"]["job_id"]) == ("revival_conflict", str(effect.job_id))
    for _ in range(3):
        await replica.tick()
        await healing.mine(1)
    nonce = await healing.engine.node.ask(methods.transaction_count(old["signer"], "latest"))
    assert nonce <= old["nonce"], "the call of the disowned lineage was sent again"
    await healing.add_member(effect, fee=evolve(HIGHER, max_fee_per_gas_wei=90 * 10**9), is_cancellation=True)
    for _ in range(6):
        await replica.tick()
        await healing.mine(1)
    states = await healing.rows("SELECT state FROM transactions.lineages ORDER BY lineage_id")
    assert [row["state"] for row in states] == ["cancelled", "mined"]
    assert await plane.state(effect.job_id) == "completed"
    assert (await events_of(healing.engine.node, healing.engine.contract))[effect.event] == 1
    await check_invariants(plane.database, healing.engine.node, healing.engine.contract)


async def test_a_head_that_lags_is_no_reorganisation(healing: Healing) -> None:
    """Goal: TX-6: only another block at the same height, by quorum, is one. Method: one of three
    voters has none of the later blocks, then one tells other hashes everywhere; then two do, and nothing is decided."""
    replica = healing.replica()
    (effect,) = await healing.completed(replica, 1)
    for lies in ([_behind], [_other_hashes], [_behind, _other_hashes]):
        with suppress(NoQuorum):
            await healing.replica(*three(healing.engine, *lies)).tick()
    assert await healing.states([effect]) == ["completed"]
    assert not await healing.rows("SELECT FROM transactions.reorganisations")
    assert not await healing.rows("SELECT FROM transactions.halts")


def _behind(call: Any, answer: Any) -> Any:
    return None if call.method == "eth_getBlockByNumber" and call.params[0] != "latest" else answer


def _other_hashes(call: Any, answer: Any) -> Any:
    del call
    return evolve(answer, hash=bytes(32)) if isinstance(answer, Header) else answer


async def test_a_chain_that_began_anew_takes_nothing_of_the_old_one_back(healing: Healing) -> None:
    """Goal: TX-14 beside TX-6. Method: a job completes, its lane begins another world, and the new chain grows past the
    height of the old receipt: nothing is revived, and nothing halts."""
    replica = healing.replica()
    (effect,) = await healing.completed(replica, 1)
    row = await healing.lineage(effect)
    await healing.rows(
        "UPDATE transactions.lanes SET world = world + 1, first_nonce = next_nonce WHERE signer = $1", row["signer"]
    )
    await healing.take_back(effect)
    await healing.replica(name="two").tick()
    assert await healing.states([effect]) == ["completed"]
    assert not await healing.rows("SELECT FROM transactions.reorganisations")
    assert not await healing.rows("SELECT FROM transactions.halts")
