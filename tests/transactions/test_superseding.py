"""A nonce that something of another's used: ours ends when that is final and agreed, and never before (TX-3, TX-4)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import trio
from attrs import evolve

from rpc import methods
from rpc.errors import EndpointFault, Transport
from tayho.contracts.custody import Reservation
from tayho.kernel.address import Address
from tayho.kernel.call_hash import call_hash
from tayho.kernel.steps import on_step
from tayho.kinds import Call
from tayho.transactions.executor import signing_request
from tayho.transactions.types import Fee
from tests.invariants import events_of
from tests.services.chain import LocalChain, local_chain
from tests.transactions.conftest import Engine
from tests.transactions.healing import CONFIRMATIONS, LOOKBACK, Effect, Healing, Replica
from tests.transactions.test_liars import nonce_plus, none_for, three


@pytest.fixture(scope="module")
def chain() -> Iterator[LocalChain]:
    """A node of this module's own: others' transactions are in its lanes."""
    with local_chain(block_seconds=None) as running:
        yield running


@pytest.fixture
async def healing(engine: Engine) -> Healing:
    world = Healing.of(engine)
    await world.mine(2 * LOOKBACK)
    return world


async def taken(world: Healing, effect: Effect) -> bytes:
    """Use the job's nonce with a transaction of the same key that no journal has; ours is in no pool any more."""
    row = await world.lineage(effect)
    signer, to = Address(row["signer"]), Address(b"\x99" * 20)
    custody = world.engine.executor._custody  # pyright: ignore[reportPrivateUsage]
    signed = await custody.sign_and_seal(
        signing_request(row["chain_id"], signer, row["nonce"], Call(to, b""), 100_000, Fee(90 * 10**9, 10**9)),
        Reservation(row["chain_id"], signer, row["nonce"], call_hash(row["chain_id"], to, 0, b"")),
    )
    await world.engine.node.ask(methods.send_raw_transaction(signed.raw.reveal()))
    return signed.tx_hash


@pytest.fixture
async def overtaken(healing: Healing) -> tuple[Effect, bytes]:
    """A job whose nonce a foreign transaction has used, final: the pool took it in the place of ours."""
    await healing.ask("evm_setAutomine", False)
    (effect,) = await healing.sent(1)
    await healing.ask("anvil_dropAllTransactions")
    await healing.ask("evm_setAutomine", True)
    foreign = await taken(healing, effect)
    await healing.mine(CONFIRMATIONS)
    return effect, foreign


async def test_ours_is_superseded_and_the_lane_goes_on(healing: Healing) -> None:
    """Goal: TX-3. Method: four jobs in two lanes; a foreign transaction of the same key replaces the first one in the
    pool; it is dead with the foreign hash and block, on record as an event and a finding; the others complete."""
    await healing.ask("evm_setAutomine", False)
    effects = await healing.sent(4)
    foreign = await taken(healing, effects[0])
    await healing.ask("evm_setAutomine", True)
    await healing.mine(CONFIRMATIONS + 1)
    replica = healing.replica()
    await healing.settle(replica, effects[1:], foreign=[foreign])
    assert await healing.states(effects) == ["dead", "completed", "completed", "completed"]
    row = await healing.lineage(effects[0])
    mined = await healing.engine.node.ask(methods.transaction_receipt(foreign))
    assert mined is not None
    assert (row["state"], row["superseded_by"], row["superseded_in"]) == ("superseded", foreign, mined.block_hash)
    assert row["included_block_number"] == mined.block_number
    record = await healing.engine.plane.coordination.inspect(effects[0].job_id)
    assert record is not None
    assert isinstance(record.last_error, dict)
    assert (record.last_error["type"], record.last_error["foreign_tx_hash"]) == ("Superseded", f"0x{foreign.hex()}")
    assert not record.has_live_lineage
    assert await healing.events(effects[0]) == ["superseded"]
    (finding,) = await healing.rows("SELECT kind, signer, detail FROM transactions.findings")
    assert (finding["kind"], finding["signer"], finding["detail"]["nonce"]) == (
        "superseded",
        row["signer"],
        row["nonce"],
    )
    assert not (await events_of(healing.engine.node, healing.engine.contract))[effects[0].event]
    await _next_takes_the_next_nonce(healing, replica, row, foreign)


async def _next_takes_the_next_nonce(world: Healing, replica: Replica, row: Any, foreign: bytes) -> None:
    later = await world.sent(2, "later")
    nonces = {(await world.lineage(one))["signer"]: (await world.lineage(one))["nonce"] for one in later}
    assert nonces[row["signer"]] > row["nonce"]
    await world.settle(replica, later, foreign=[foreign])


async def test_what_is_not_final_yet_supersedes_nothing(healing: Healing) -> None:
    """Goal: only what is final. Method: the foreign transaction is one block short of the confirmations."""
    await healing.ask("evm_setAutomine", False)
    (effect,) = await healing.sent(1)
    await healing.ask("anvil_dropAllTransactions")
    await healing.ask("evm_setAutomine", True)
    await taken(healing, effect)
    await healing.mine(CONFIRMATIONS - 1)
    replica = healing.replica()
    for _ in range(4):
        await replica.tick()
    assert (await healing.lineage(effect))["state"] == "broadcast"
    assert await healing.events(effect) == []
    await healing.mine(1)
    await replica.tick()
    assert await healing.states([effect]) == ["dead"]


def _receipts_away(call: Any, answer: Any) -> Any:
    return EndpointFault("x", Transport("gone")) if call.method == "eth_getTransactionReceipt" else answer


def _other_contents(call: Any, answer: Any) -> Any:
    return () if call.method == "eth_getBlockByHash" and call.params[1] else answer


async def test_two_of_three_nodes_that_lag_in_receipts_supersede_nothing(healing: Healing) -> None:
    """Goal: the transaction itself is the proof, not the absence of a receipt. Method: ours is mined and final, and a
    majority shows no receipt of it, however often it is looked at; it completes by the next honest look."""
    (effect,) = await healing.sent(1)
    await healing.mine(CONFIRMATIONS + 2)
    replica = healing.replica(*three(healing.engine, *[none_for("eth_getTransactionReceipt")] * 2))
    for _ in range(5):
        await replica.tick()
    assert (await healing.lineage(effect))["state"] == "broadcast"
    assert await healing.states([effect]) == ["confirming"]
    await healing.settle(healing.replica(), [effect])
    assert (await healing.lineage(effect))["hold"] is None


async def test_receipts_that_lag_hold_ours_for_as_long_as_the_block_shows_it(healing: Healing) -> None:
    """Goal: nodes that lag in receipts are not believed against the block. Method: ours is final, all three voters show
    no receipt, for ten looks: it is held with the reason; once a receipt shows up the hold is lifted."""
    (effect,) = await healing.sent(1)
    await healing.mine(CONFIRMATIONS + 1)
    lagging = healing.replica(*three(healing.engine, *[none_for("eth_getTransactionReceipt")] * 3))
    for _ in range(10):
        await lagging.tick()
    row = await healing.lineage(effect)
    assert (row["state"], row["hold"]) == ("broadcast", "nonce_used")
    assert "receipt" in row["hold_reason"]
    assert await healing.events(effect) == ["held"]
    await healing.mine(1)
    shallow = Healing.of(healing.engine, confirmations=50, reorg_lookback_blocks=60)
    await shallow.replica().tick()
    assert (await healing.lineage(effect))["hold"] is None
    assert await healing.events(effect) == ["held", "released"]
    await healing.settle(healing.replica(), [effect])


@pytest.mark.parametrize(
    "lie",
    [nonce_plus(-1), nonce_plus(1), none_for("eth_getTransactionReceipt"), _receipts_away, _other_contents],
    ids=["counts less", "counts more", "no receipts", "answers no receipts", "empty blocks"],
)
async def test_one_liar_moves_nothing(healing: Healing, lie: Any) -> None:
    """Goal: I9 of a supersession. Method: one of three voters lies about one thing: first of a transaction of ours in
    the pool, that must stay as it is; then it is overtaken, and must be superseded all the same."""
    await healing.ask("evm_setAutomine", False)
    (effect,) = await healing.sent(1)
    replica = healing.replica(*three(healing.engine, lie))
    await replica.tick()
    assert (await healing.lineage(effect))["hold"] is None
    assert await healing.states([effect]) == ["confirming"]
    await healing.ask("anvil_dropAllTransactions")
    await healing.ask("evm_setAutomine", True)
    foreign = await taken(healing, effect)
    await healing.mine(CONFIRMATIONS)
    for _ in range(4):
        await replica.tick()
    row = await healing.lineage(effect)
    assert (row["state"], row["superseded_by"]) == ("superseded", foreign)


def _pruned(call: Any, answer: Any) -> Any:
    """A node that serves no contents of blocks."""
    if call.method == "eth_getBlockByHash" and call.params[1]:
        return EndpointFault("x", Transport("pruned"))
    return answer


async def test_what_cannot_be_identified_is_held_and_then_decided(
    healing: Healing, overtaken: tuple[Effect, bytes]
) -> None:
    """Goal: no lane waits for ever. Method: no voter serves the contents of blocks: two looks hold it visibly, the
    third supersedes it, and says that it does not know by what."""
    effect, _ = overtaken
    replica = healing.replica(*three(healing.engine, *[_pruned] * 3))
    for _ in range(2):
        await replica.tick()
        row = await healing.lineage(effect)
        assert (row["state"], row["hold"]) == ("broadcast", "nonce_used")
        assert "not yet identified" in row["hold_reason"]
    await replica.tick()
    row = await healing.lineage(effect)
    assert (row["state"], row["hold"], row["superseded_by"]) == ("superseded", None, None)
    assert row["state_reason"].startswith("not identified")
    assert await healing.events(effect) == ["held", "superseded"]
    assert await healing.states([effect]) == ["dead"]


async def test_looks_close_together_are_one(healing: Healing, overtaken: tuple[Effect, bytes]) -> None:
    """Goal: three looks are three moments. Method: as above, with an hour between two looks: it stays held."""
    effect, _ = overtaken
    slow = evolve(healing, settings=evolve(healing.settings, reconcile_seconds=3_600))
    replica = slow.replica(*three(healing.engine, *[_pruned] * 3))
    for _ in range(5):
        await replica.tick()
    assert (await healing.lineage(effect))["hold"] == "nonce_used"
    assert (await healing.lineage(effect))["state"] == "broadcast"


async def test_a_nonce_that_the_chain_gives_back_is_ours_again(
    healing: Healing, overtaken: tuple[Effect, bytes]
) -> None:
    """Goal: a supersession is taken back like any end. Method: the foreign block goes: the lineage is revived, its
    bytes are sent, and its job completes."""
    effect, _ = overtaken
    replica = healing.replica()
    await replica.tick()
    assert await healing.states([effect]) == ["dead"]
    await healing.reorganise(CONFIRMATIONS + 1)
    await replica.tick()
    assert await healing.states([effect]) == ["retry"]
    await healing.settle(replica, [effect])
    assert await healing.events(effect) == ["superseded", "un_mined", "mined"]


async def test_who_dies_after_the_decision_has_decided(healing: Healing, overtaken: tuple[Effect, bytes]) -> None:
    """Goal: PRF-2, in this process. Method: the tick ends right after the commit; another process changes nothing."""

    class Died(BaseException):
        pass

    def die(name: str) -> None:
        if name == "supersede.after_decide":
            raise Died

    effect, _ = overtaken
    on_step(die)
    try:
        with pytest.raises(Died):
            await healing.replica().tick()
    finally:
        on_step(None)
    await healing.replica(name="two").tick()
    assert await healing.events(effect) == ["superseded"]
    assert await healing.states([effect]) == ["dead"]
    assert len(await healing.rows("SELECT FROM transactions.findings")) == 1


async def test_two_processes_supersede_once(healing: Healing, overtaken: tuple[Effect, bytes]) -> None:
    """Goal: replicas that see the same do it once. Method: both tick at the same time."""
    effect, _ = overtaken
    replicas = [healing.replica(name="one"), healing.replica(name="two")]
    async with trio.open_nursery() as racers:
        for one in replicas:
            racers.start_soon(one.tick)
    assert await healing.events(effect) == ["superseded"]
    assert len(await healing.rows("SELECT FROM transactions.findings")) == 1
