"""A signer leaves its pool and another takes its place, on a real chain and database (OPS-7)."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
import trio
from attrs import evolve

from storage.errors import Refused
from tayho.custody.module import SigningPolicy, open_custody, parse_journal_keys, parse_signer_keys
from tayho.kernel.address import Address
from tayho.kernel.jobs import Ended, Postponed
from tayho.local.development import PUBLIC_ACCOUNTS
from tayho.transactions.broadcast import Broadcaster
from tayho.transactions.errors import (
    CheckMissing,
    NonceUnsettled,
    PoolHalted,
    SignerRetired,
    SignerTaken,
    StillOpen,
)
from tayho.transactions.executor import Executor, execute_or_postpone
from tayho.transactions.journal import Journal
from tayho.transactions.lanes import register_lanes
from tayho.transactions.pool_signers import PoolSigners
from tayho.transactions.rotating.draining import SignerDrains
from tayho.transactions.rotating.pools import SignerRotation
from tayho.transactions.sending import Sending
from tayho.transactions.types import Allocation, Lineage
from tayho.voters import truth_of
from tests.services.chain import LocalChain, local_chain
from tests.transactions.conftest import CHAIN_ID, ENVIRONMENT, FEE_WEI_MAX, SIGNERS, Engine, any_call
from tests.transactions.test_executor import Kind
from tests.transactions.watching import execute, lanes, look, mine, rows, states, told, use_elsewhere

OLD, STAYING = sorted(SIGNERS)
# A key that the node holds too, and no pool.
NEW = Address.parse("0x90F79bf6EB2c4f870365E785982E1f101E93b906")
# How many blocks a reorganisation may take back here.
REACH = 8


@pytest.fixture
def chain() -> Iterator[LocalChain]:
    """A node of this test's own: its signers are retired."""
    with local_chain(block_seconds=None) as running:
        yield running


def _drains(engine: Engine) -> SignerDrains:
    return SignerDrains(engine.plane.database, engine.plane.coordination, CHAIN_ID, ENVIRONMENT)


def _rotation(engine: Engine) -> SignerRotation:
    settings = evolve(engine.settings, reorg_lookback_blocks=REACH)
    return SignerRotation(engine.plane.database, engine.plane.coordination, truth_of([engine.node]), settings)


async def _allocated(engine: Engine, count: int, key: str, journal: Journal | None = None) -> list[object]:
    """Who got each of so many nonces; an error in the place of who got none."""
    attempts = await engine.attempts(count, key)
    answers = await (journal or engine.journal).allocate_many([Allocation(one, any_call()) for one in attempts])
    return [answer.signer if isinstance(answer, Lineage) else answer for answer in answers]


async def _codes(engine: Engine, signer: Address = OLD) -> list[str]:
    return [one.code for one in (await _rotation(engine).retire_check(signer, "ada")).missing]


async def test_a_signer_is_drained_checked_and_replaced(engine: Engine) -> None:
    """Goal: OPS-7 whole. Method: both lanes work; one is drained while it has a transaction open: no replica takes a
    nonce of it, what is open goes on, the check names what is missing until the block is too deep to be reorganised;
    the place is handed over, a process with the new key takes its nonces without a restart, one without it does not,
    and the old one is refused for ever, by the code and by the database."""
    (attempt, other) = await engine.attempts(2)
    assert [await execute(engine, one) for one in (attempt, other)] == [Ended(), Ended()]
    assert (await _drains(engine).drain(OLD, "ada", "a rotation")).changed
    assert not (await _drains(engine).drain(OLD, "ada", "again")).changed
    assert (await lanes(engine))[OLD].state_reason == "drained by ada: a rotation"
    await look(engine)
    assert (await lanes(engine))[OLD].state == "draining", "money opens no drained lane"
    assert set(await _allocated(engine, 3, "drained")) == {STAYING}
    assert (await _drains(engine).await_final(OLD, 0)).lineages == 1
    assert (await _codes(engine))[0] == "open"
    with pytest.raises(StillOpen):
        await _rotation(engine).rotate(OLD, NEW, "ada")
    await engine.tick_and_mine(3)
    assert (await _drains(engine).await_final(OLD, 5)).lineages == 0
    assert await states(engine, [attempt]) == ["completed"]
    assert "revivable" in await _codes(engine)
    with pytest.raises(CheckMissing):
        await _rotation(engine).rotate(OLD, NEW, "ada")
    await mine(engine, REACH)
    assert await _codes(engine) == []
    before = PoolSigners([STAYING, NEW]), PoolSigners(SIGNERS)
    with_key, without_key = (
        Journal(engine.plane.database, engine.plane.coordination, engine.settings, signers=one) for one in before
    )
    assert set(await _allocated(engine, 1, "before", with_key)) == {STAYING}
    done = await _rotation(engine).rotate(OLD, NEW, "ada", "its year is over")
    assert (done.changed, done.next_nonce) == (True, 0)
    assert not (await _rotation(engine).rotate(OLD, NEW, "ada")).changed, "an answer that was lost is asked for again"
    assert NEW in await _allocated(engine, 2, "after", with_key)
    assert NEW not in await _allocated(engine, 2, "elsewhere", without_key)
    assert sorted(await lanes(engine)) == sorted([STAYING, NEW])
    await _is_retired_for_ever(engine)
    assert await rows(engine, "SELECT action FROM coordination.operator_actions ORDER BY action_id") == [
        ("signer_drain",),
        *[("signer_retire_check",)] * 3,
        ("signer_pool_rotate",),
    ]
    passed = await rows(engine, "SELECT has_passed FROM transactions.retirement_checks ORDER BY checked_at")
    assert passed == [(False,), (False,), (True,)]


async def _is_retired_for_ever(engine: Engine) -> None:
    with pytest.raises(SignerRetired):
        await _drains(engine).undrain(OLD, "ada", "a mistake")
    with pytest.raises(SignerRetired):
        await _rotation(engine).widen(OLD, "ada")
    # A process whose configuration still has the old key starts, and its lane is not made again.
    assert await register_lanes(engine.plane.database, engine.node, engine.settings, [OLD, STAYING]) == frozenset()
    assert OLD not in await lanes(engine)
    for change in ("next_nonce = next_nonce + 1", "state = 'open'"):
        with pytest.raises(Refused):
            await rows(engine, f"UPDATE transactions.lanes SET {change} WHERE signer = $1", OLD.value)
    # Who has its key now may use it: it is no concern of the pool's.
    await use_elsewhere(engine, OLD)
    await look(engine)
    assert await rows(engine, "SELECT kind FROM transactions.findings") == []


async def test_a_drain_that_meets_an_allocation_waits_for_it_or_is_seen_by_it(engine: Engine) -> None:
    """Goal: after the drain's commit no nonce is taken, whoever was at it. Method: allocations of two replicas and a
    drain at once, over and over; the fence that the drain recorded is the fence for good."""
    other = Journal(engine.plane.database, engine.plane.coordination, evolve(engine.settings, lane_depth=50))
    for turn in range(4):
        async with trio.open_nursery() as racers:
            racers.start_soon(_allocated, engine, 2, f"one-{turn}", other)
            racers.start_soon(_drains(engine).drain, OLD, "ada", "")
            racers.start_soon(_allocated, engine, 2, f"two-{turn}", other)
        (recorded,) = (await rows(engine, _FENCE_AT_DRAIN))[0]
        assert await _allocated(engine, 2, f"late-{turn}", other) == [STAYING, STAYING]
        assert (await lanes(engine))[OLD].next_nonce == recorded
        assert (await _drains(engine).undrain(OLD, "ada", "")).changed
    assert OLD in await _allocated(engine, 2, "undrained", other)


_FENCE_AT_DRAIN = """
SELECT (detail ->> 'fence')::bigint FROM coordination.operator_actions
WHERE action = 'signer_drain' ORDER BY action_id DESC LIMIT 1
"""


async def test_what_happened_since_the_check_undoes_it(engine: Engine) -> None:
    """Goal: a pass is of the lane as it was. Method: passed; undrained, a nonce taken and given back, drained again:
    the fence is the same and the rotation allowed; a nonce taken and kept: refused; the check grown old: refused."""
    await mine(engine, REACH)
    await _drains(engine).drain(OLD, "ada", "")
    assert await _codes(engine) == []
    await _drains(engine).undrain(OLD, "ada", "")
    attempts = await engine.attempts(2, "since")
    answers = await engine.journal.allocate_many([Allocation(one, any_call()) for one in attempts])
    (taken,) = [
        (attempt, answer)
        for attempt, answer in zip(attempts, answers, strict=True)
        if isinstance(answer, Lineage) and answer.signer == OLD
    ]
    await _drains(engine).drain(OLD, "ada", "")
    with pytest.raises(StillOpen):
        await _rotation(engine).rotate(OLD, NEW, "ada")
    await engine.journal.abandon_unsigned(*taken, {"reason": "not wanted"})
    with pytest.raises(SignerTaken):
        await _rotation(engine).rotate(OLD, STAYING, "ada")
    await told(engine, "evm_setAutomine", False)
    await use_elsewhere(engine, NEW)
    with pytest.raises(NonceUnsettled, match="wait in the nodes' pools"):
        await _rotation(engine).rotate(OLD, NEW, "ada")
    await mine(engine)
    await engine.executor.halts.raise_halt("chain_ahead", {"lanes": []})
    with pytest.raises(PoolHalted):
        await _rotation(engine).rotate(OLD, NEW, "ada")
    assert "halted" in await _codes(engine)
    assert set(await lanes(engine)) == set(SIGNERS), "whatever was refused changed nothing"


async def test_a_key_without_a_place_stands_by_and_may_be_given_one(engine: Engine) -> None:
    """Goal: only an operator changes who is in a pool. Method: a start with a third key makes no lane for it; it is
    added, at the nonce that the chain has for it; added again: refused."""
    await use_elsewhere(engine, NEW, 2)
    started = await register_lanes(engine.plane.database, engine.node, engine.settings, [*SIGNERS, NEW])
    assert started == frozenset()
    assert NEW not in await lanes(engine)
    assert (await _rotation(engine).widen(NEW, "ada")).next_nonce == 2
    assert (await lanes(engine))[NEW].next_nonce == 2
    with pytest.raises(SignerTaken):
        await _rotation(engine).widen(NEW, "ada")


async def test_a_nonce_of_a_key_that_is_elsewhere_waits_for_a_replica_that_has_it(engine: Engine) -> None:
    """Goal: while replicas hold different keys, no job fails and no nonce is given up for it. Method: a nonce of one
    signer is reserved; a process that holds only the other key is handed the job, and puts it off; one that has the key
    carries it out."""
    attempts = await engine.attempts(2)
    answers = await engine.journal.allocate_many([Allocation(one, any_call()) for one in attempts])
    (attempt,) = [
        one
        for one, answer in zip(attempts, answers, strict=True)
        if isinstance(answer, Lineage) and answer.signer == OLD
    ]
    policy = SigningPolicy(frozenset({CHAIN_ID}), FEE_WEI_MAX)
    keys = parse_signer_keys(json.dumps({str(STAYING): dict(PUBLIC_ACCOUNTS)[str(STAYING)]}))
    with open_custody(keys, parse_journal_keys(json.dumps({"test": f"0x{'5a' * 32}"}), "test"), policy) as custody:
        other = Executor(
            engine.plane.database,
            engine.plane.coordination,
            custody,
            engine.node,
            Sending(Broadcaster(engine.node, "node")),
            engine.settings,
            (STAYING,),
        )
        async with trio.open_nursery() as tasks:
            tasks.start_soon(other.run)
            outcome = await execute_or_postpone(other, Kind(any_call()), await engine.job(attempt), attempt)
            tasks.cancel_scope.cancel()
    assert isinstance(outcome, Postponed)
    assert str(OLD) in outcome.reason
    assert await execute(engine, attempt) == Ended()
