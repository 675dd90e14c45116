"""What is stuck is replaced at its nonce, within its limits, and never at another (TX-7)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any, TypeVar

import pytest
import trio
from structlog.testing import capture_logs

from rpc import methods
from rpc.errors import RpcError
from rpc.reads import Call as Question
from tayho.kernel.jobs import Attempt
from tayho.transactions.errors import PoolHalted
from tayho.transactions.halts import Halts, resolve_halts
from tayho.transactions.replacing.rules import UNDERPRICED
from tayho.transactions.types import Allocation, Lineage, Persistence, SignedMember
from tests.invariants import check_invariants
from tests.transactions.conftest import FEE_WEI_MAX, Engine, any_call
from tests.transactions.replacements import (
    GWEI,
    events,
    finish,
    lineage,
    members,
    mining_held,
    order,
    replacing,
    rows,
    sent,
    step,
    wish,
)
from tests.transactions.test_reconciler import REFUSED, UNREADABLE, Blind
from tests.waiting import until

T = TypeVar("T")


@pytest.fixture
async def engine(engine: Engine) -> AsyncIterator[Engine]:
    """An engine whose chain makes no block but those that the test asks for."""
    async with mining_held(engine.node):
        yield engine


async def test_what_is_stuck_is_replaced_and_mined_under_the_newest(engine: Engine) -> None:
    """Goal: TX-7 whole at one node. Method: no block comes; two rounds replace twice, each fee field at least an eighth
    higher, rounded up, everything else the same; the last one is mined and ends the job once."""
    (attempt,) = await sent(engine, 1)
    for _ in range(2):
        await step(engine, replacing(engine))
    first, second, third = await members(engine, attempt)
    for old, new in ((first, second), (second, third)):
        for field in ("max_fee_per_gas_wei", "max_priority_fee_per_gas_wei"):
            assert new[field] * 10_000 >= old[field] * 11_250
        for field in ("nonce", "call_hash", "gas_limit", "signer", "transaction_type", "is_cancellation"):
            assert new[field] == old[field]
    assert [one["state"] for one in (first, second, third)] == ["replaced", "replaced", "broadcast"]
    assert (await lineage(engine, attempt))["state"] == "broadcast"
    pending = await engine.node.ask(methods.transaction_by_hash(third["tx_hash"]))
    assert pending is not None
    assert (pending.nonce, pending.input, pending.value_wei) == (first["nonce"], any_call(0).data, 0)
    assert await finish(engine, [attempt]) == ["completed"]
    assert [one["state"] for one in await members(engine, attempt)] == ["replaced", "replaced", "mined"]
    assert await events(engine, attempt) == ["replaced", "replaced", "mined"]
    await check_invariants(engine.plane.database, engine.node, engine.contract)


async def test_only_the_lowest_nonce_of_each_lane_is_bumped(engine: Engine) -> None:
    """Goal: those behind are not stuck. Method: four in each of two lanes; after a round, and again after the two
    lowest were mined and the journal knows it not yet, exactly those that the chain waits for have a second member."""
    attempts = await sent(engine, 8)
    await step(engine, replacing(engine))
    counted = [len(await members(engine, attempt)) for attempt in attempts]
    assert counted == [2, 2, 1, 1, 1, 1, 1, 1]
    await order(engine.node, "evm_mine")
    await step(engine, replacing(engine))
    assert [len(await members(engine, attempt)) for attempt in attempts] == counted
    assert await finish(engine, attempts) == ["completed"] * 8


async def test_nothing_is_bumped_before_its_time(engine: Engine) -> None:
    """Goal: however fast the blocks come, a transaction has TX_STUCK_SECONDS. Method: ten blocks that leave it out; a
    round with an hour; nothing was signed."""
    (attempt,) = await sent(engine, 1)
    await order(engine.node, "anvil_setNextBlockBaseFeePerGas", hex(60 * GWEI))
    for _ in range(10):
        await order(engine.node, "evm_mine")
        await step(engine, replacing(engine, stuck_seconds=3_600))
    assert len(await members(engine, attempt)) == 1


async def test_nothing_is_signed_while_the_pool_is_halted(engine: Engine) -> None:
    """Goal: in a world in doubt nothing is signed (TX-14). Method: a stuck transaction and a wish to cancel; a halt;
    a round signs nothing; the halt is resolved; the next one cancels."""
    (attempt,) = await sent(engine, 1)
    await wish(engine, "cancel", attempt.job_id)
    halts = Halts(engine.plane.database, engine.settings)
    halt = await halts.raise_halt("chain_reset", {"why": "a test"})
    with pytest.raises(PoolHalted):
        await step(engine, replacing(engine))
    assert len(await members(engine, attempt)) == 1
    async with engine.plane.database.transaction() as tx:
        await resolve_halts(tx, engine.settings, [halt.halt_id], "gone", "ada")
    await step(engine, replacing(engine))
    assert [one["is_cancellation"] for one in await members(engine, attempt)] == [False, True]
    assert await finish(engine, [attempt]) == ["dead"]


async def test_at_the_ceiling_it_is_held_rebroadcast_and_mined_when_the_market_falls(engine: Engine) -> None:
    """Goal: stop bumping is not stop sending. Method: the base fee rises above the ceiling; the hold is set and told
    once, with an alert; the pool drops the bytes and the reconciler sends the same; the base fee falls, the hold is
    lifted once, and the very first transaction is mined."""
    (attempt,) = await sent(engine, 1)
    (first,) = await members(engine, attempt)
    await order(engine.node, "anvil_setNextBlockBaseFeePerGas", hex(FEE_WEI_MAX + 1))
    await order(engine.node, "evm_mine")
    with capture_logs() as lines:
        for _ in range(3):
            await step(engine, replacing(engine))
    held = await lineage(engine, attempt)
    assert (held["hold"], held["state"]) == ("fee_capped", "broadcast")
    assert str(FEE_WEI_MAX) in held["hold_reason"]
    alerts = [line for line in lines if line["event"] == "lineage_held"]
    assert [(line["log_level"], line["hold"]) for line in alerts] == [("warning", "fee_capped")]
    await order(engine.node, "anvil_dropTransaction", f"0x{first['tx_hash'].hex()}")
    await engine.reconciler.tick()
    answers = await rows(engine, "SELECT tx_hash, answer FROM transactions.broadcasts ORDER BY broadcast_id")
    # This node refuses what it could not mine now; others keep it.
    assert [(row["tx_hash"], row["answer"]) for row in answers] == [
        (first["tx_hash"], "accepted"),
        (first["tx_hash"], "refused"),
    ]
    await order(engine.node, "anvil_setNextBlockBaseFeePerGas", hex(first["max_fee_per_gas_wei"] // 2))
    await order(engine.node, "evm_mine")
    await step(engine, replacing(engine, stuck_seconds=3_600))
    assert (await lineage(engine, attempt))["hold"] is None
    await engine.reconciler.tick()
    assert await finish(engine, [attempt]) == ["completed"]
    assert await events(engine, attempt) == ["held", "released", "mined"]
    assert len(await members(engine, attempt)) == 1
    await check_invariants(engine.plane.database, engine.node, engine.contract)


async def test_at_the_ceiling_in_a_calm_market_it_is_held_until_it_is_mined(engine: Engine) -> None:
    """Goal: a hold that the market did not cause is not lifted by the market, or it would come and go for ever. Method:
    a ceiling just above the first fee; four rounds; one hold; a block takes it, and the hold ends with that."""
    (attempt,) = await sent(engine, 1)
    (first,) = await members(engine, attempt)
    capped = replacing(engine, fee_wei_max=first["max_fee_per_gas_wei"] * 109 // 100)
    for _ in range(4):
        await step(engine, capped)
    assert (await lineage(engine, attempt))["hold"] == "fee_capped"
    assert await events(engine, attempt) == ["held"]
    await order(engine.node, "anvil_dropTransaction", f"0x{first['tx_hash'].hex()}")
    await engine.reconciler.tick()
    assert await engine.node.ask(methods.transaction_by_hash(first["tx_hash"])) is not None
    assert await finish(engine, [attempt]) == ["completed"]
    assert await events(engine, attempt) == ["held", "released", "mined"]


async def test_a_hold_ends_when_a_block_holds_the_transaction(engine: Engine) -> None:
    """Goal: what is mined is not shown as stuck. Method: held, mined, noted and not final yet; that lifts it."""
    (attempt,) = await sent(engine, 1)
    await step(engine, replacing(engine, replacements_max=0))
    assert (await lineage(engine, attempt))["hold"] == "replacements_spent"
    await order(engine.node, "evm_mine")
    await engine.reconciler.tick()
    assert (await lineage(engine, attempt))["included_block_number"] is not None
    assert (await lineage(engine, attempt))["hold"] is None
    assert await events(engine, attempt) == ["held", "released"]
    assert await finish(engine, [attempt]) == ["completed"]


async def test_a_raised_ceiling_bumps_what_was_held(engine: Engine) -> None:
    """Goal: a hold is lifted when bumping is possible again. Method: held at a ceiling; the operator raises it; the
    next round replaces, and tells both."""
    (attempt,) = await sent(engine, 1)
    (first,) = await members(engine, attempt)
    await step(engine, replacing(engine, fee_wei_max=first["max_fee_per_gas_wei"]))
    await step(engine, replacing(engine))
    assert (await lineage(engine, attempt))["hold"] is None
    assert sorted(await events(engine, attempt)) == ["held", "released", "replaced"]
    assert await finish(engine, [attempt]) == ["completed"]


async def test_no_more_replacements_than_allowed(engine: Engine) -> None:
    """Goal: TX_MAX_REPLACEMENTS is a bound. Method: two allowed, five rounds; three members and a hold; it is mined."""
    (attempt,) = await sent(engine, 1)
    for _ in range(5):
        await step(engine, replacing(engine, replacements_max=2))
    assert len(await members(engine, attempt)) == 3
    assert (await lineage(engine, attempt))["hold"] == "replacements_spent"
    assert await events(engine, attempt) == ["replaced", "replaced", "held"]
    assert await finish(engine, [attempt]) == ["completed"]


async def test_what_a_block_holds_is_not_replaced_though_the_journal_does_not_know(engine: Engine) -> None:
    """Goal: the chain is asked before anything is signed. Method: a block takes both lanes' transactions; a round comes
    before the reconciler has looked; nothing was signed, and both end."""
    attempts = await sent(engine, 2)
    await order(engine.node, "evm_mine")
    await step(engine, replacing(engine))
    assert [len(await members(engine, attempt)) for attempt in attempts] == [1, 1]
    assert await finish(engine, attempts) == ["completed", "completed"]


async def test_a_replacement_that_comes_too_late_takes_no_other_nonce(engine: Engine) -> None:
    """Goal: the trap of replacing at the moment of mining. Method: a block comes between the round's look and its send;
    the node answers that the nonce is too low; the fences stand, and the job ends once, by the first transaction."""
    (attempt,) = await sent(engine, 1)
    fences = await rows(engine, "SELECT signer, next_nonce FROM transactions.lanes ORDER BY signer")
    await step(engine, replacing(engine, voter=MinesAfterwards(engine.node)))
    assert len(await members(engine, attempt)) == 2
    assert await rows(engine, "SELECT signer, next_nonce FROM transactions.lanes ORDER BY signer") == fences
    assert await finish(engine, [attempt]) == ["completed"]
    assert [one["state"] for one in await members(engine, attempt)] == ["mined", "signed"]
    await check_invariants(engine.plane.database, engine.node, engine.contract)


@pytest.mark.parametrize("method", ["eth_getTransactionReceipt", "eth_getTransactionCount"])
async def test_nothing_is_signed_on_what_no_majority_shows(engine: Engine, method: str) -> None:
    """Goal: unseen is not unmined. Method: of two lanes, the receipts or nonces of one cannot be read; only the other
    is replaced."""
    attempts = await sent(engine, 2)
    (first,) = await members(engine, attempts[0])
    about = f"0x{first['tx_hash' if method == 'eth_getTransactionReceipt' else 'signer'].hex()}"
    blind = Blind(engine.node, lambda call: call.method == method and call.params[0] == about, UNREADABLE)
    await step(engine, replacing(engine, voter=blind))
    assert [len(await members(engine, attempt)) for attempt in attempts] == [1, 2]
    assert await finish(engine, attempts) == ["completed", "completed"]


async def test_of_two_replicas_one_replaces(engine: Engine) -> None:
    """Goal: one new member, whoever is faster, and no error. Method: both replicas have read the same before either
    writes; the other gives up, and the third member comes only with another round."""
    (attempt,) = await sent(engine, 1)
    gates = [Gate(engine.node), Gate(engine.node)]
    with capture_logs() as lines:
        async with trio.open_nursery() as replicas:
            for number, gate in enumerate(gates):
                # Another market, so that they sign different bytes.
                replicas.start_soon(
                    step, engine, replacing(engine, voter=gate, fee_bump_basis_points=1_250 + number * 500)
                )
            await until(lambda: all(gate.is_reached for gate in gates), what="both to have read")
            for gate in gates:
                gate.opened.set()
    assert len(await members(engine, attempt)) == 2
    assert sorted(line["event"] for line in lines if "replaced" in line["event"]) == [
        "lineage_replaced",
        "replaced_elsewhere",
    ]
    assert await finish(engine, [attempt]) == ["completed"]


async def test_a_wish_to_bump_is_met_at_once_and_once(engine: Engine) -> None:
    """Goal: an operator need not wait for the time. Method: an hour to go; a wish; two rounds; one more member."""
    (attempt,) = await sent(engine, 1)
    assert (await wish(engine, "bump", attempt.job_id)).is_new
    assert not (await wish(engine, "bump", attempt.job_id)).is_new
    for _ in range(2):
        await step(engine, replacing(engine, stuck_seconds=3_600))
    assert len(await members(engine, attempt)) == 2
    assert await events(engine, attempt) == ["bump_requested", "replaced"]
    assert await finish(engine, [attempt]) == ["completed"]


async def _behind_a_stranger(engine: Engine) -> tuple[Attempt, SignedMember]:
    """A job whose nonce a stranger with the same key holds in the node's pool, at twice the fee; ours was refused."""
    (attempt,) = await engine.attempts(1)
    (allocated,) = await engine.journal.allocate_many([Allocation(attempt, any_call(1))])
    assert isinstance(allocated, Lineage)
    ours = await engine.executor.sign(allocated)
    assert isinstance(ours, SignedMember)
    assert await engine.journal.persist_many([Persistence(attempt, ours)]) == [None]
    await order(engine.node, "anvil_impersonateAccount", allocated.signer.checksummed)
    strangers = {
        "from": allocated.signer.checksummed,
        "to": allocated.signer.checksummed,
        "nonce": hex(allocated.nonce),
        "maxFeePerGas": hex(ours.fee.max_fee_per_gas_wei * 2),
        "maxPriorityFeePerGas": hex(ours.fee.max_fee_per_gas_wei * 2),
    }
    await order(engine.node, "eth_sendTransaction", strangers)
    await engine.reconciler.tick()
    (answer,) = await rows(engine, "SELECT answer, reason FROM transactions.broadcasts")
    assert answer == {"answer": "refused", "reason": UNDERPRICED}
    return attempt, ours


async def test_a_stranger_in_the_pool_is_outbid(engine: Engine) -> None:
    """Goal: `replacement underpriced` is no loop. Method: a stranger's transaction of twice our fee sits at the nonce;
    the next round offers an eighth more than that, is taken, and is mined."""
    attempt, ours = await _behind_a_stranger(engine)
    await step(engine, replacing(engine))
    _, second = await members(engine, attempt)
    assert second["max_priority_fee_per_gas_wei"] * 10_000 >= ours.fee.max_fee_per_gas_wei * 2 * 11_250
    assert second["state"] == "broadcast"
    assert await finish(engine, [attempt]) == ["completed"]


async def test_a_stranger_that_no_node_shows_is_waited_out_visibly(engine: Engine) -> None:
    """Goal: without knowing what to outbid, nothing is burnt. Method: the node does not tell who is there; a hold, once
    and with an alert; the stranger leaves the pool; ours is sent again, taken, and the hold ends with the block."""
    attempt, _ = await _behind_a_stranger(engine)
    hides = Blind(engine.node, lambda call: call.method == "eth_getTransactionBySenderAndNonce", REFUSED)
    for _ in range(3):
        await step(engine, replacing(engine, reads=hides))
    assert (await lineage(engine, attempt))["hold"] == "refused"
    assert await events(engine, attempt) == ["held"]
    assert len(await members(engine, attempt)) == 1
    await order(engine.node, "anvil_dropAllTransactions")
    await engine.reconciler.tick()
    assert await finish(engine, [attempt]) == ["completed"]
    assert (await lineage(engine, attempt))["hold"] is None


async def test_a_failed_bump_sends_the_old_bytes_again(engine: Engine) -> None:
    """Goal: one of both is in a pool, always. Method: the node refuses every replacement for want of funds; the pool
    has dropped the old bytes; after the round it has them again."""
    (attempt,) = await sent(engine, 1)
    (first,) = await members(engine, attempt)
    await order(engine.node, "anvil_dropTransaction", f"0x{first['tx_hash'].hex()}")
    signer = f"0x{first['signer'].hex()}"
    before = await engine.node.ask(methods.balance(first["signer"], "latest"))
    await order(engine.node, "anvil_setBalance", signer, hex(first["gas_limit"] * first["max_fee_per_gas_wei"]))
    try:
        await step(engine, replacing(engine))
        assert len(await members(engine, attempt)) == 2
        assert await engine.node.ask(methods.transaction_by_hash(first["tx_hash"])) is not None
        answers = await rows(engine, "SELECT tx_hash, answer FROM transactions.broadcasts ORDER BY broadcast_id")
        second = (await members(engine, attempt))[1]["tx_hash"]
        assert [(row["tx_hash"], row["answer"]) for row in answers] == [
            (first["tx_hash"], "accepted"),
            (first["tx_hash"], "accepted"),
            (second, "refused"),
        ]
    finally:
        await order(engine.node, "anvil_setBalance", signer, hex(before))
    assert await finish(engine, [attempt]) == ["completed"]


class Passes:
    """A voter that passes everything on."""

    def __init__(self, node: Any) -> None:
        self._node = node
        self.shown = "passes"

    async def ask(self, call: Question[T]) -> T:
        (answer,) = await self.ask_many([call])
        if isinstance(answer, RpcError):
            raise answer
        return answer

    async def ask_many(self, calls: Sequence[Question[T]]) -> list[T | RpcError]:
        return await self._node.ask_many(calls)


class MinesAfterwards(Passes):
    """A voter after whose look at receipts and nonces a block is mined."""

    async def ask_many(self, calls: Sequence[Question[T]]) -> list[T | RpcError]:
        answers = await super().ask_many(calls)
        if any(call.params[1:] == ("pending",) for call in calls):
            await order(self._node, "evm_mine")
        return answers


class Gate(Passes):
    """A voter that answers only when it is let."""

    def __init__(self, node: Any) -> None:
        super().__init__(node)
        self.is_reached = False
        self.opened = trio.Event()

    async def ask_many(self, calls: Sequence[Question[T]]) -> list[T | RpcError]:
        self.is_reached = True
        await self.opened.wait()
        return await super().ask_many(calls)
