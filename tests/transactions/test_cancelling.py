"""An operator's cancellation: a transfer of nothing at the same nonce, and whichever is mined decides (TX-10)."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from attrs import evolve

from rpc import methods
from tayho.kernel.ids import new_id
from tayho.kernel.jobs import StaleAttempt
from tayho.transactions.errors import (
    FillerNeeded,
    LineageEnded,
    LineageUnknown,
    NothingSigned,
    UnderBlock,
)
from tayho.transactions.journal import Journal
from tayho.transactions.lanes import lanes_of_pool
from tayho.transactions.replacing.types import Act
from tayho.transactions.types import Allocation, Lineage, Persistence, SignedMember
from tests.invariants import check_invariants
from tests.transactions.conftest import Engine, any_call
from tests.transactions.replacements import (
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
from tests.transactions.test_executor import Kind


@pytest.fixture
async def engine(engine: Engine) -> AsyncIterator[Engine]:
    """An engine whose chain makes no block but those that the test asks for."""
    async with mining_held(engine.node):
        yield engine


async def test_a_cancellation_that_is_mined_ends_the_job_without_its_effect(engine: Engine) -> None:
    """Goal: TX-10 whole at one node. Method: a wish, named by the transaction's hash; the round signs a transfer of
    nothing to oneself at the same nonce, at once, with higher fees; it is mined; lineage `cancelled`, job `dead`."""
    (attempt,) = await sent(engine, 1)
    (call,) = await members(engine, attempt)
    assert (await wish(engine, "cancel", call["tx_hash"])).is_new
    await step(engine, replacing(engine, stuck_seconds=3_600))
    _, cancellation = await members(engine, attempt)
    pending = await engine.node.ask(methods.transaction_by_hash(cancellation["tx_hash"]))
    assert pending is not None
    assert (pending.to, pending.sender, pending.value_wei, pending.input) == (call["signer"], call["signer"], 0, b"")
    assert pending.nonce == call["nonce"]
    for field in ("max_fee_per_gas_wei", "max_priority_fee_per_gas_wei"):
        assert cancellation[field] * 10_000 >= call[field] * 11_250
    assert await finish(engine, [attempt]) == ["dead"]
    assert (await lineage(engine, attempt))["state"] == "cancelled"
    assert await events(engine, attempt) == ["cancel_requested", "replaced", "cancelled"]
    record = await engine.plane.coordination.inspect(attempt.job_id)
    assert record is not None
    assert record.last_error is not None
    assert record.last_error["type"] == "CancelledOnChain"
    (wished,) = await rows(engine, "SELECT detail FROM transactions.events WHERE kind = 'cancel_requested'")
    assert wished["detail"] == {"actor": "ada", "reason": "a test"}
    await check_invariants(engine.plane.database, engine.node, engine.contract)


async def test_a_cancellation_that_lost_the_race_is_told_as_what_it_is(engine: Engine) -> None:
    """Goal: the receipt decides and not the wish. Method: cancelled, but a block takes the call: the job is completed;
    before it is final and after it a second wish is refused with what happened."""
    (attempt,) = await sent(engine, 1)
    await wish(engine, "cancel", attempt.job_id)
    await order(engine.node, "evm_mine")
    await step(engine, replacing(engine))
    assert len(await members(engine, attempt)) == 1
    await engine.reconciler.tick()
    with pytest.raises(UnderBlock):
        await wish(engine, "cancel", attempt.job_id)
    assert await finish(engine, [attempt]) == ["completed"]
    (mined,) = await members(engine, attempt)
    with pytest.raises(LineageEnded, match=f"mined by 0x{mined['tx_hash'].hex()}"):
        await wish(engine, "cancel", attempt.job_id)
    assert await events(engine, attempt) == ["cancel_requested", "mined"]


async def test_the_call_may_be_mined_after_it_was_cancelled_and_the_job_is_done(engine: Engine) -> None:
    """Goal: every member counts to the end. Method: the cancellation is sent; the pool loses it and gets the call back;
    the call is mined under its first hash; the job is completed and says so."""
    (attempt,) = await sent(engine, 1)
    await wish(engine, "cancel", attempt.job_id)
    raw = await _raw(engine, (await members(engine, attempt))[0]["tx_hash"])
    await step(engine, replacing(engine))
    await order(engine.node, "anvil_dropAllTransactions")
    await order(engine.node, "eth_sendRawTransaction", raw)
    assert await finish(engine, [attempt]) == ["completed"]
    assert (await lineage(engine, attempt))["state"] == "mined"


async def _raw(engine: Engine, tx_hash: bytes) -> str:
    return await order(engine.node, "eth_getRawTransactionByHash", f"0x{tx_hash.hex()}")


async def test_a_cancellation_behind_others_need_not_wait_for_them(engine: Engine) -> None:
    """Goal: what is not mined yet can be cancelled wherever it stands in its lane. Method: the last of three in a lane;
    one round; only it has a second member, and the others' calls are mined."""
    attempts = await sent(engine, 6)
    await wish(engine, "cancel", attempts[4].job_id)
    await step(engine, replacing(engine, stuck_seconds=3_600))
    assert [len(await members(engine, attempt)) for attempt in attempts] == [1, 1, 1, 1, 2, 1]
    assert await finish(engine, attempts) == ["completed"] * 4 + ["dead", "completed"]
    await check_invariants(engine.plane.database, engine.node, engine.contract)


async def test_a_stuck_cancellation_is_bumped_as_a_cancellation(engine: Engine) -> None:
    """Goal: what was cancelled is never called again, and its chances are its own. Method: one replacement allowed; the
    call uses it up; the wish; five rounds; the call, its replacement, and a cancellation with one replacement."""
    (attempt,) = await sent(engine, 1)
    rounds = replacing(engine, replacements_max=1)
    await step(engine, rounds)
    await step(engine, rounds)
    await wish(engine, "cancel", attempt.job_id)
    for _ in range(5):
        await step(engine, rounds)
    assert [one["is_cancellation"] for one in await members(engine, attempt)] == [False, False, True, True]
    assert (await lineage(engine, attempt))["hold"] == "replacements_spent"
    assert await finish(engine, [attempt]) == ["dead"]


async def test_what_is_not_signed_is_given_up_and_its_nonce_goes_back_or_is_filled(engine: Engine) -> None:
    """Goal: a nonce is not spent on what nobody wants, and no lane gaps. Method: of three allocations the first and the
    last are cancelled; the tail's nonce is back at the fence, the other is a filler; the attempt that holds one of
    them can persist nothing any more; both jobs are dead and the third completes."""
    attempts = await engine.attempts(3)
    deep = Journal(engine.plane.database, engine.plane.coordination, evolve(engine.settings, lane_depth=3))
    lineages = await deep.allocate_many([Allocation(attempt, any_call()) for attempt in attempts])
    first, second, last = [one for one in lineages if isinstance(one, Lineage)]
    for one in (first, second):
        with pytest.raises(NothingSigned):
            await wish(engine, "bump", one.lineage_id)
        await wish(engine, "cancel", one.lineage_id)
    signed = await engine.executor.sign(first)
    assert isinstance(signed, SignedMember)
    await step(engine, replacing(engine, stuck_seconds=3_600))
    (answer,) = await engine.journal.persist_many([Persistence(attempts[0], signed)])
    assert isinstance(answer, StaleAttempt)
    states = {one.lineage_id: await engine.state(one.lineage_id) for one in (first, second, last)}
    assert list(states.values()) == ["abandoned", "abandoned", "allocated"]
    fences = {lane.signer: lane.next_nonce for lane in await lanes_of_pool(engine.plane.database, engine.settings)}
    assert fences[second.signer] == second.nonce
    (filler,) = await rows(engine, "SELECT * FROM transactions.lineages WHERE purpose = 'filler'")
    assert (filler["signer"], filler["nonce"]) == (first.signer.value, first.nonce)
    with pytest.raises(FillerNeeded):
        await wish(engine, "cancel", filler["lineage_id"])
    assert await events(engine, attempts[0]) == ["cancel_requested", "cancelled"]
    await engine.executor.execute(Kind(any_call()), await engine.job(attempts[2]), attempts[2])
    assert await finish(engine, attempts) == ["dead", "dead", "completed"]
    await check_invariants(engine.plane.database, engine.node, engine.contract)


async def test_signed_before_the_round_it_is_cancelled_as_what_it_is_then(engine: Engine) -> None:
    """Goal: signed bytes are never given up. Method: the wish is older than the signature; the round finds bytes and
    replaces them; the job ends by the chain."""
    (attempt,) = await engine.attempts(1)
    (allocated,) = await engine.journal.allocate_many([Allocation(attempt, any_call())])
    assert isinstance(allocated, Lineage)
    await wish(engine, "cancel", attempt.job_id)
    await engine.executor.execute(Kind(any_call()), await engine.job(attempt), attempt)
    await step(engine, replacing(engine, stuck_seconds=3_600))
    assert [one["is_cancellation"] for one in await members(engine, attempt)] == [False, True]
    assert await finish(engine, [attempt]) == ["dead"]


@pytest.mark.parametrize("act", ["bump", "cancel"])
async def test_what_nobody_knows_is_refused(engine: Engine, act: Act) -> None:
    """Goal: no wish for nothing. Method: an id and a hash that no row has."""
    for named in (new_id(), bytes(32)):
        with pytest.raises(LineageUnknown):
            await wish(engine, act, named)
