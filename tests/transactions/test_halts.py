"""While a halt of the pool is open, no replica signs, sends or finalises (TX-6, TX-14)."""

from __future__ import annotations

from datetime import UTC, datetime
from uuid import UUID

import pytest
import trio
from attrs import evolve

from rpc.reads import Call as Question
from storage.errors import StoreUnavailable
from tayho.api.process import halt_reasons
from tayho.kernel.jobs import Attempt, Ended, Outcome, Postponed
from tayho.transactions import store
from tayho.transactions.errors import PoolHalted
from tayho.transactions.executor import execute_or_postpone
from tayho.transactions.halts import Halts
from tayho.transactions.types import Allocation, Halt, Lineage, Persistence, SignedMember
from tests.coordination.test_races import until_waiting
from tests.transactions.conftest import Engine, any_call
from tests.transactions.test_executor import Kind

EVIDENCE = {"block_number": 7}


def _elsewhere(engine: Engine) -> Halts:
    """The halts as another replica sees them: what it raises, this process has not seen yet."""
    return Halts(engine.plane.database, evolve(engine.settings, instance_id="elsewhere"))


async def _execute(engine: Engine, attempt: Attempt) -> Outcome:
    return await execute_or_postpone(engine.executor, Kind(any_call()), await engine.job(attempt), attempt)


async def _allocated(engine: Engine, attempt: Attempt) -> Lineage:
    (lineage,) = await engine.journal.allocate_many([Allocation(attempt, any_call())])
    assert isinstance(lineage, Lineage)
    return lineage


async def _signed(engine: Engine, lineage: Lineage) -> SignedMember:
    member = await engine.executor.sign(lineage)
    assert isinstance(member, SignedMember)
    return member


async def _counts(engine: Engine) -> tuple[int, int, int]:
    """Lineages, members and sends so far."""
    async with engine.plane.database.connection() as connection:
        row = await connection.fetchrow(
            "SELECT (SELECT count(*) FROM transactions.lineages), (SELECT count(*) FROM transactions.members),"
            " (SELECT count(*) FROM transactions.broadcasts)"
        )
    assert row is not None
    return row[0], row[1], row[2]


async def _taken_over(engine: Engine, attempt: Attempt) -> Attempt:
    begun = await engine.plane.begin(attempt.job_id, await engine.plane.worker())
    assert begun.attempt is not None
    return begun.attempt


async def test_an_open_halt_is_one_whoever_raises_it_again(engine: Engine) -> None:
    """Goal: one row tells one fact, and the first evidence stays. Method: raise a kind twice, by two replicas, and
    another once; the pool goes on only with the last of them; the kind may be raised again after that."""
    ours, theirs = engine.executor.halts, _elsewhere(engine)
    first = await ours.raise_halt("chain_reset", EVIDENCE)
    assert await theirs.raise_halt("chain_reset", {"block_number": 8}) == first
    assert first.evidence == EVIDENCE
    other = await theirs.raise_halt("finality_violated", {})
    assert [halt.kind for halt in await ours.open()] == ["chain_reset", "finality_violated"]
    assert await ours.resolve(first.halt_id, "adopted", "ada")
    assert not await ours.resolve(first.halt_id, "restarted", "bob")
    with pytest.raises(PoolHalted):
        ours.refuse()
    (attempt,) = await engine.attempts(1)
    assert isinstance((await engine.journal.allocate_many([Allocation(attempt, any_call())]))[0], PoolHalted)
    assert await ours.resolve(other.halt_id, "adopted", "ada")
    ours.refuse()
    await _allocated(engine, attempt)
    assert (await theirs.raise_halt("chain_reset", EVIDENCE)).halt_id != first.halt_id


@pytest.mark.parametrize("is_seen", [True, False], ids=["seen", "unseen"])
async def test_nothing_is_allocated_signed_or_ended_while_a_halt_is_open(engine: Engine, is_seen: bool) -> None:
    """Goal: the halt holds also where this process has not heard of it. Method: one job is new, one allocated, one
    mined; another replica halts the pool; executions postpone and the tick ends nothing, no row is added and the
    attempts come back; when it is resolved, all three complete."""
    new, allocated, mined = attempts = await engine.attempts(3)
    assert await _execute(engine, mined) == Ended()
    await engine.node.ask(Question("anvil_mine", ("0x3",), lambda _: None, is_write=True))
    await _allocated(engine, allocated)
    before = await _counts(engine)
    halt = await _elsewhere(engine).raise_halt("chain_ahead", EVIDENCE)
    if is_seen:
        await engine.executor.halts.look()
    allocated = await _taken_over(engine, allocated)
    for attempt in (new, allocated):
        outcome = await _execute(engine, attempt)
        assert isinstance(outcome, Postponed)
        assert "halted" in outcome.reason
    assert not await engine.reconciler.tick()
    assert await _counts(engine) == before
    assert await engine.plane.state(mined.job_id) == "confirming"
    assert await engine.executor.halts.resolve(halt.halt_id, "adopted", "ada")
    for attempt in (new, allocated):
        assert await _execute(engine, attempt) == Ended()
    await engine.tick_and_mine(3)
    assert {await engine.plane.state(attempt.job_id) for attempt in attempts} == {"completed"}


async def test_a_tick_under_way_ends_nothing_after_a_halt(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: what was decided before the halt is not committed after it. Method: the halt is raised when the tick has
    looked at the chain; it refuses, and the job is as it was."""
    (attempt,) = await engine.attempts(1)
    assert await _execute(engine, attempt) == Ended()
    await engine.node.ask(Question("anvil_mine", ("0x3",), lambda _: None, is_write=True))
    look = engine.reconciler._look  # pyright: ignore[reportPrivateUsage]

    async def look_then_halted(lineages):  # type: ignore[no-untyped-def]
        view = await look(lineages)
        await _elsewhere(engine).raise_halt("finality_violated", EVIDENCE)
        return view

    monkeypatch.setattr(engine.reconciler, "_look", look_then_halted)
    with pytest.raises(PoolHalted):
        await engine.reconciler.tick()
    assert await engine.plane.state(attempt.job_id) == "confirming"


async def test_signed_bytes_are_not_sent_while_a_halt_is_seen(engine: Engine) -> None:
    """Goal: a retry of what is signed waits too. Method: a signed lineage, a halt, an attempt: no send; then resolved,
    the identical bytes go out."""
    (attempt,) = await engine.attempts(1)
    member = await _signed(engine, await _allocated(engine, attempt))
    assert await engine.journal.persist_many([Persistence(attempt, member)]) == [None]
    halt = await engine.executor.halts.raise_halt("chain_reset", EVIDENCE)
    assert isinstance(await _execute(engine, attempt), Postponed)
    assert await _counts(engine) == (1, 1, 0)
    await engine.executor.halts.resolve(halt.halt_id, "gone", "reconciler")
    assert await _execute(engine, attempt) == Ended()
    assert await _counts(engine) == (1, 1, 1)


async def test_no_signature_commits_after_the_halt_has(engine: Engine) -> None:
    """Goal: no gap between the look at the pool and the commit. Method: one transaction has found the pool unhalted and
    is open; the halt waits for it; a persist that comes after the halt is refused, its bytes gone."""
    (attempt,) = await engine.attempts(1)
    member = await _signed(engine, await _allocated(engine, attempt))
    settings, database = engine.settings, engine.plane.database
    async with trio.open_nursery() as replicas, database.transaction() as tx:
        assert not await store.HOLD_POOL(tx, settings.chain_id, settings.environment, settings.role)
        replicas.start_soon(_elsewhere(engine).raise_halt, "chain_reset", EVIDENCE)
        await until_waiting(database, 1)
        assert await engine.executor.halts.open() == []
    assert [halt.kind for halt in await engine.executor.halts.open()] == ["chain_reset"]
    (answer,) = await engine.journal.persist_many([Persistence(attempt, member)])
    assert isinstance(answer, PoolHalted)
    assert await _counts(engine) == (1, 0, 0)


async def test_readiness_names_the_evidence_and_the_two_commands() -> None:
    """Goal: who reads /readyz knows what was found and what to type. Method: a halt; then a database that is away."""

    async def halts() -> list[Halt]:
        await trio.lowlevel.checkpoint()
        return [Halt(UUID(int=1), "chain_ahead", {"latest_nonce": 41}, "one", datetime(2026, 12, 1, tzinfo=UTC))]

    async def away() -> list[Halt]:
        await trio.lowlevel.checkpoint()
        raise StoreUnavailable("gone")

    (reason,) = await halt_reasons(halts, "payouts")
    assert reason.check == "halt"
    for told in ("chain_ahead", '"latest_nonce": 41', "`tayho world adopt payouts`", "`tayho world restart payouts`"):
        assert told in reason.reason
    assert await halt_reasons(away, "payouts") == []
