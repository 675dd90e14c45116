"""An attempt resumes its lineage wherever the last one left it (TX-2, TX-3, TX-5)."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import pytest
import trio
import trio.testing
from attrs import evolve

from rpc.errors import DeadlinePassed, EndpointFault, RpcError
from rpc.reads import Call as Question
from rpc.reads import Reads
from tayho.kernel.jobs import Attempt, Ended, Job, NotActionable, Outcome, Postponed, StaleAttempt
from tayho.kernel.steps import on_step
from tayho.kinds import Actionable, Call, Revalidation
from tayho.protocol import abi, artifacts, counter
from tayho.transactions.broadcast import Broadcaster
from tayho.transactions.executor import Executor, execute_or_postpone
from tayho.transactions.sending import Sending
from tayho.transactions.simulation import FRESH_SECONDS, Foreseen
from tayho.transactions.types import Allocation, Lineage, Persistence, WouldRevert
from tests.invariants import check_invariants
from tests.transactions.conftest import SIGNERS, Engine, any_call

T = TypeVar("T")


class Kind:
    """A kind that wants one call, for as long as the test says so."""

    name = "kind"
    role = "automation"

    def __init__(self, call: Call) -> None:
        self.wanted = call
        self.refusal: str | None = None

    async def revalidate(self, job: Job, reads: Reads) -> Revalidation:
        return Actionable() if self.refusal is None else NotActionable(self.refusal)

    async def call(self, job: Job) -> Call:
        return self.wanted


class LosesAnswers:
    """The node, whose answers to sends are lost after it has taken the bytes."""

    def __init__(self, node: Reads) -> None:
        self._node = node

    async def ask(self, call: Question[T]) -> T:
        answer = await self._node.ask(call)
        if call.is_write:
            raise EndpointFault("node", DeadlinePassed(1, "body"))
        return answer

    async def ask_many(self, calls: Sequence[Question[T]]) -> list[T | RpcError]:
        return await self._node.ask_many(calls)


async def _execute(engine: Engine, attempt: Attempt, kind: Kind | None = None) -> Outcome:
    return await engine.executor.execute(kind or Kind(any_call()), await engine.job(attempt), attempt)


async def _taken_over(engine: Engine, attempt: Attempt) -> Attempt:
    begun = await engine.plane.begin(attempt.job_id, await engine.plane.worker())
    assert begun.attempt is not None
    return begun.attempt


async def _allocated(engine: Engine, attempt: Attempt, call: Call | None = None) -> Lineage:
    (lineage,) = await engine.journal.allocate_many([Allocation(attempt, call or any_call())])
    assert isinstance(lineage, Lineage)
    return lineage


async def _signed(engine: Engine, attempt: Attempt) -> bytes:
    signed = await engine.executor.sign(await _allocated(engine, attempt))
    assert not isinstance(signed, WouldRevert)
    assert await engine.journal.persist_many([Persistence(attempt, signed)]) == [None]
    return signed.tx_hash


async def _members(engine: Engine) -> list[bytes]:
    async with engine.plane.database.connection() as connection:
        return [row["tx_hash"] for row in await connection.fetch("SELECT tx_hash FROM transactions.members")]


@asynccontextmanager
async def _counting_steps() -> AsyncIterator[list[str]]:
    seen: list[str] = []
    on_step(seen.append)
    try:
        yield seen
    finally:
        on_step(None)


def _once(engine: Engine, event: bytes) -> Call:
    return Call(engine.contract, abi.encode_call(artifacts.load("Counter"), "recordOnce", [event]))


async def test_a_fresh_job_goes_out_and_is_finalised(engine: Engine) -> None:
    """Goal: the whole way at one node. Method: execute, mine, tick; job, lineage and member end together."""
    (attempt,) = await engine.attempts(1)
    assert await _execute(engine, attempt) == Ended()
    assert await engine.plane.state(attempt.job_id) == "confirming"
    await engine.tick_and_mine(2)
    record = await engine.plane.coordination.inspect(attempt.job_id)
    assert record is not None
    assert record.state == "completed"
    assert isinstance(record.result, dict)
    assert record.result["tx_hash"] == f"0x{(await _members(engine))[0].hex()}"
    await check_invariants(engine.plane.database, engine.node, engine.contract)


async def test_allocated_is_signed_at_the_reserved_nonce(engine: Engine) -> None:
    """Goal: TX-3's first row. Method: an attempt allocates and dies; the next one executes."""
    (attempt,) = await engine.attempts(1)
    lineage = await _allocated(engine, attempt)
    assert await _execute(engine, await _taken_over(engine, attempt)) == Ended()
    async with engine.plane.database.connection() as connection:
        rows = await connection.fetch("SELECT signer, nonce FROM transactions.members")
    assert [(row["signer"], row["nonce"]) for row in rows] == [(lineage.signer.value, lineage.nonce)]


async def test_signed_is_sent_as_the_identical_bytes(engine: Engine) -> None:
    """Goal: a retry never signs again. Method: an attempt persists and dies before sending; the next one sends; one
    member, mined under its own hash."""
    (attempt,) = await engine.attempts(1)
    tx_hash = await _signed(engine, attempt)
    async with _counting_steps() as steps:
        assert await _execute(engine, await _taken_over(engine, attempt)) == Ended()
    assert "journal.after_sign" not in steps
    assert await _members(engine) == [tx_hash]
    await engine.tick_and_mine(2)
    assert await engine.plane.state(attempt.job_id) == "completed"


async def test_a_lost_answer_is_resumed_with_the_same_bytes(engine: Engine) -> None:
    """Goal: a timeout never proves rejection. Method: the node takes the bytes and its answer is lost; the attempt
    ends as confirming, its member in doubt, and the reconciler hears `already known` or finds it mined; one effect."""
    (attempt,) = await engine.attempts(1)
    healthy = engine.executor._sending  # pyright: ignore[reportPrivateUsage]
    engine.executor._sending = Sending(Broadcaster(LosesAnswers(engine.node), "node"))  # pyright: ignore[reportPrivateUsage]
    assert await _execute(engine, attempt) == Ended()
    assert await engine.plane.state(attempt.job_id) == "confirming"
    async with engine.plane.database.connection() as connection:
        assert await connection.fetchval("SELECT state FROM transactions.members") == "ambiguous"
    engine.executor._sending = healthy  # pyright: ignore[reportPrivateUsage]
    assert len(await _members(engine)) == 1
    await engine.tick_and_mine(3)
    assert await engine.plane.state(attempt.job_id) == "completed"
    assert len(await _members(engine)) == 1
    await check_invariants(engine.plane.database, engine.node, engine.contract)


async def test_broadcast_is_looked_up_before_it_is_sent_again(engine: Engine) -> None:
    """Goal: TX-3's third row. Method: the reconciler has sent the bytes of a dead attempt; the next attempt finds
    them by
    hash and sends nothing."""
    (attempt,) = await engine.attempts(1)
    await _signed(engine, attempt)
    await engine.reconciler.tick()
    current = await _taken_over(engine, attempt)
    async with _counting_steps() as steps:
        assert await _execute(engine, current) == Ended()
    assert "broadcast.after_send" not in steps
    assert await engine.plane.state(attempt.job_id) == "confirming"


class NamesItsErrors(Kind):
    """Knows the ABI of what it calls."""

    def revert_reason(self, data: bytes) -> str | None:
        return counter.CounterRecordOnce().revert_reason(data)


class StumblesOverItsErrors(Kind):
    """Raises on data that it did not expect."""

    def revert_reason(self, data: bytes) -> str | None:
        raise ValueError(data)


async def test_a_call_that_reverts_takes_no_nonce(engine: Engine) -> None:
    """Goal: TX-11. Method: an event id that is recorded already; the contract's own words are the reason."""
    event = os.urandom(32)
    first, second = await engine.attempts(2)
    assert await _execute(engine, first, Kind(_once(engine, event))) == Ended()
    await engine.tick_and_mine(2)
    outcome = await _execute(engine, second, Kind(_once(engine, event)))
    assert isinstance(outcome, NotActionable)
    assert "revert" in outcome.reason
    outcome = await _execute(engine, second, NamesItsErrors(_once(engine, event)))
    assert outcome == NotActionable(f"would revert: AlreadyRecorded(jobId=0x{event.hex()})")
    outcome = await _execute(engine, second, StumblesOverItsErrors(_once(engine, event)))
    assert isinstance(outcome, NotActionable)
    assert outcome.reason.startswith("would revert: ")
    async with engine.plane.database.connection() as connection:
        assert await connection.fetchval("SELECT sum(next_nonce - first_nonce) FROM transactions.lanes") == 1


async def test_an_allocation_that_is_not_wanted_any_more_is_abandoned(engine: Engine) -> None:
    """Goal: TX-3's last row. Method: between allocation and resumption the kind changes its mind, or the call begins to
    revert; the job ends `not_actionable` and the lane has no gap."""
    event = os.urandom(32)
    first, second, third = await engine.attempts(3)
    await _allocated(engine, first)
    unwilling = Kind(any_call())
    unwilling.refusal = "the market is closed"
    assert await _execute(engine, await _taken_over(engine, first), unwilling) == Ended()
    assert await engine.plane.state(first.job_id) == "not_actionable"
    await _allocated(engine, second, _once(engine, event))
    assert await _execute(engine, third, Kind(_once(engine, event))) == Ended()
    await engine.tick_and_mine(3)
    assert await _execute(engine, await _taken_over(engine, second), Kind(_once(engine, event))) == Ended()
    assert await engine.plane.state(second.job_id) == "not_actionable"
    await engine.tick_and_mine(4)
    assert await engine.plane.state(third.job_id) == "completed"
    await check_invariants(engine.plane.database, engine.node, engine.contract)


async def test_a_mined_revert_ends_the_job_dead_with_its_evidence(engine: Engine) -> None:
    """Goal: `reverted` is terminal and visible. Method: two calls of which the second reverts are signed before
    either is
    mined."""
    event = os.urandom(32)
    first, second = await engine.attempts(2)
    await _set_automine(engine, on=False)
    try:
        for attempt in (first, second):
            assert await _execute(engine, attempt, Kind(_once(engine, event))) == Ended()
    finally:
        await _set_automine(engine, on=True)
    await engine.tick_and_mine(4)
    states = {await engine.plane.state(attempt.job_id) for attempt in (first, second)}
    assert states == {"completed", "dead"}
    await check_invariants(engine.plane.database, engine.node, engine.contract)


async def test_a_transaction_that_the_pool_dropped_is_sent_again(engine: Engine) -> None:
    """Goal: TX-5's dropped mempool. Method: mining is off; the node is told to drop the transaction; the reconciler
    sends
    the same bytes; mining goes on."""
    (attempt,) = await engine.attempts(1)
    await _set_automine(engine, on=False)
    try:
        assert await _execute(engine, attempt) == Ended()
        (tx_hash,) = await _members(engine)
        await engine.node.ask(Question("anvil_dropTransaction", (f"0x{tx_hash.hex()}",), lambda _: None, is_write=True))
        await engine.reconciler.tick()
    finally:
        await _set_automine(engine, on=True)
    await engine.tick_and_mine(3)
    assert await engine.plane.state(attempt.job_id) == "completed"
    assert await _members(engine) == [tx_hash]


async def test_a_market_above_the_ceiling_postpones_and_signs_nothing(engine: Engine) -> None:
    """Goal: never above TX_MAX_FEE_PER_GAS_WEI. Method: a ceiling of one wei."""
    (attempt,) = await engine.attempts(1)
    engine.executor._settings = evolve(engine.settings, fee_wei_max=1)  # pyright: ignore[reportPrivateUsage]
    outcome = await execute_or_postpone(engine.executor, Kind(any_call()), await engine.job(attempt), attempt)
    assert isinstance(outcome, Postponed)
    assert await _members(engine) == []


async def test_a_full_pool_makes_the_handler_wait_until_a_lane_has_room(engine: Engine) -> None:
    """Goal: back pressure instead of churn. Method: fill both lanes, start one more; it goes out when a reconciler tick
    saw the others mined."""
    full = len(await _lanes(engine)) * engine.settings.lane_depth
    *attempts, last = await engine.attempts(full + 1)
    await _set_automine(engine, on=False)
    outcomes: list[Outcome] = []

    async def late() -> None:
        outcomes.append(await _execute(engine, last))

    for attempt in attempts:
        assert await _execute(engine, attempt) == Ended()
    async with trio.open_nursery() as tasks:
        tasks.start_soon(late)
        await trio.testing.wait_all_tasks_blocked(0.05)
        assert outcomes == []
        await _set_automine(engine, on=True)
        await engine.tick_and_mine(2)
    assert outcomes == [Ended()]


async def test_a_stale_attempt_neither_signs_nor_ends_anything(engine: Engine) -> None:
    """Goal: I6 in the engine. Method: an attempt that was taken over executes to its end."""
    (attempt,) = await engine.attempts(1)
    stale_job = await engine.job(attempt)
    current = await _taken_over(engine, attempt)
    with pytest.raises(StaleAttempt):
        await engine.executor.execute(Kind(any_call()), stale_job, attempt)
    assert await _members(engine) == []
    assert await _execute(engine, current) == Ended()


async def _lanes(engine: Engine) -> list[Any]:
    async with engine.plane.database.connection() as connection:
        return await connection.fetch("SELECT signer FROM transactions.lanes")


async def _set_automine(engine: Engine, *, on: bool) -> None:
    await engine.node.ask(Question("evm_setAutomine", (on,), lambda _: None, is_write=True))
    if on:
        await engine.node.ask(Question("anvil_mine", ("0x1",), lambda _: None, is_write=True))


class Simulating:
    """The node, with every simulation that is asked of it kept: who would send, and at which block."""

    def __init__(self, node: Reads) -> None:
        self._node = node
        self.seen: list[tuple[str, str]] = []

    async def ask(self, call: Question[T]) -> T:
        self._see([call])
        return await self._node.ask(call)

    async def ask_many(self, calls: Sequence[Question[T]]) -> list[T | RpcError]:
        self._see(calls)
        return await self._node.ask_many(calls)

    def _see(self, calls: Sequence[Question[T]]) -> None:
        self.seen += [(call.params[0]["from"], call.params[1]) for call in calls if call.method == "eth_estimateGas"]


@asynccontextmanager
async def _simulating(engine: Engine) -> AsyncIterator[tuple[Executor, Simulating]]:
    """An executor like the engine's, whose simulations are seen."""
    watched = Simulating(engine.node)
    executor = Executor(
        engine.plane.database,
        engine.plane.coordination,
        engine.executor._custody,  # pyright: ignore[reportPrivateUsage]
        watched,
        Sending(Broadcaster(engine.node, "node")),
        engine.settings,
        SIGNERS,
    )
    async with trio.open_nursery() as tasks:
        tasks.start_soon(executor.run)
        yield executor, watched
        tasks.cancel_scope.cancel()


async def test_an_attempt_is_simulated_once_with_the_signer_who_signs(engine: Engine) -> None:
    """Goal: TX-11 at the price of one simulation. Method: jobs one after the other, whose lanes come in turn; each is
    simulated with its lineage's own signer, and a second time only where another lane was given."""
    attempts = await engine.attempts(4)
    async with _simulating(engine) as (executor, watched):
        for attempt in attempts:
            assert await executor.execute(Kind(any_call()), await engine.job(attempt), attempt) == Ended()
    async with engine.plane.database.connection() as connection:
        signers = await connection.fetch("SELECT signer FROM transactions.lineages ORDER BY allocated_at")
    senders = [sender for sender, _ in watched.seen]
    # The first may be out of step with the cursor: it is simulated again, with the signer who was given.
    if len(senders) == len(attempts) + 1:
        del senders[0]
    assert senders == [f"0x{row['signer'].hex()}" for row in signers]


async def test_a_simulation_of_an_old_block_or_another_signer_is_made_again(
    engine: Engine,
) -> None:
    """Goal: nothing is signed on what was true long ago, or for somebody else. Method: the same allocation, signed with
    a fresh simulation of its signer, with an old one, and with another signer's."""
    (attempt,) = await engine.attempts(1)
    lineage = await _allocated(engine, attempt)
    other = next(signer for signer in SIGNERS if signer != lineage.signer)
    async with _simulating(engine) as (executor, watched):
        simulations = executor._simulations  # pyright: ignore[reportPrivateUsage]
        fee_wei_max = engine.settings.fee_wei_max
        fresh = await simulations.with_signer(lineage.signer, lineage.call, fee_wei_max)
        others = await simulations.with_signer(other, lineage.call, fee_wei_max)
        assert isinstance(fresh, Foreseen)
        assert isinstance(others, Foreseen)
        old = evolve(fresh, asked_at=fresh.asked_at - FRESH_SECONDS - 1)
        for foreseen, made in ((fresh, 0), (old, 1), (others, 1), (None, 1)):
            watched.seen.clear()
            assert not isinstance(await executor.sign(lineage, foreseen), WouldRevert)
            assert len(watched.seen) == made
            assert {sender for sender, _ in watched.seen} <= {str(lineage.signer).lower()}
