"""A lane shows what its account shows, takes what it can pay, and goes round what others used (TX-9, TX-15)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import trio
from attrs import evolve

from tayho.kernel.address import Address
from tayho.kernel.jobs import Ended, Postponed, StaleAttempt
from tayho.kinds import Call
from tayho.transactions.errors import NoLaneOpen, PoolHalted
from tayho.transactions.lane_rules import needed_wei
from tayho.transactions.types import Allocation, LaneFacts, LaneStatus, Lineage, Persistence, SignedMember
from tests.invariants import check_invariants
from tests.services.chain import LocalChain, local_chain
from tests.transactions.conftest import FEE_WEI_MAX, SIGNERS, Engine, any_call
from tests.transactions.watching import (
    LOOKBACK,
    execute,
    findings,
    lanes,
    look,
    mine,
    rows,
    states,
    taken_over,
    told,
    use_elsewhere,
    watch_of,
)

RICH = 10**22
# What takes turns first: the lanes go by the order of their addresses.
FIRST, SECOND = sorted(SIGNERS)
GATE = Address(b"\x99" * 20)


@pytest.fixture
def chain() -> Iterator[LocalChain]:
    """A node of this test's own, whose accounts it may change."""
    with local_chain(block_seconds=None) as running:
        yield running


async def test_a_lane_shows_what_a_majority_shows_of_its_account(engine: Engine) -> None:
    """Goal: TX-9's row is whole, and written only when it changes. Method: look at a fresh lane, send, look again; a
    third look with nothing new leaves the row's version alone."""
    await look(engine)
    before = (await lanes(engine))[FIRST]
    assert before.balance_wei is not None
    assert (before.latest_nonce, before.pending_nonce) == (before.next_nonce, before.next_nonce)
    (attempt,) = await engine.attempts(1)
    assert await execute(engine, attempt) == Ended()
    await look(engine)
    after = (await lanes(engine))[FIRST]
    assert (after.latest_nonce, after.in_flight) == (before.latest_nonce + 1, 1)
    assert after.balance_wei is not None
    assert after.balance_wei < before.balance_wei
    versions = await rows(engine, "SELECT xmin::text, observed_at FROM transactions.lanes ORDER BY signer")
    await look(engine)
    assert await rows(engine, "SELECT xmin::text, observed_at FROM transactions.lanes ORDER BY signer") == versions
    assert await findings(engine) == []


async def test_a_lane_that_runs_dry_takes_nothing_new_and_still_pays_what_it_has(engine: Engine) -> None:
    """Goal: the reserve is for fillers and bumps, new work goes elsewhere, and a top-up opens the lane. Method: two
    nonces of a lane are reserved; its balance falls just below the line; two replicas look at once and say so once; new
    work goes to the other lane; the lower nonce is abandoned, and its filler and the other call are mined from what
    was kept back, at the full ceiling; the lane is topped up and open again."""
    attempts = await engine.attempts(3)
    answers = await engine.journal.allocate_many([Allocation(one, any_call()) for one in attempts])
    mine_of = [
        (one, answer)
        for one, answer in zip(attempts, answers, strict=True)
        if isinstance(answer, Lineage) and answer.signer == FIRST
    ]
    assert len(mine_of) == 2
    facts = LaneFacts(evolve(_status(), in_flight=2), 1, False, False, 0, 0, 0, None, None)
    line = needed_wei(facts, FEE_WEI_MAX)
    await told(engine, "anvil_setBalance", str(FIRST), hex(line - 1))
    async with trio.open_nursery() as replicas:
        for _ in range(2):
            replicas.start_soon(look, engine, watch_of(engine))
    lane = (await lanes(engine))[FIRST]
    assert lane.state == "underfunded"
    assert lane.state_reason is not None
    assert str(line - 1) in lane.state_reason
    assert [kind for kind, _ in await findings(engine)] == ["low_balance", "underfunded"]
    fresh = await engine.attempts(3, key="later")
    answers = await engine.journal.allocate_many([Allocation(one, any_call()) for one in fresh])
    assert {_of(answer) for answer in answers} == {SECOND}
    attempt, lineage = mine_of[0]
    await engine.journal.abandon_unsigned(attempt, lineage, {"reason": "not wanted"})
    attempt, lineage = mine_of[1]
    assert await execute(engine, attempt) == Ended()
    await engine.tick_and_mine(4)
    assert await engine.state(lineage.lineage_id) == "mined"
    ended = await rows(engine, "SELECT state FROM transactions.lineages WHERE purpose = 'filler'")
    assert ended == [("mined",)]
    await told(engine, "anvil_setBalance", str(FIRST), hex(RICH))
    await look(engine)
    assert (await lanes(engine))[FIRST].state == "open"
    assert [kind for kind, _ in await findings(engine)][-1] == "funded"


def _of(answer: object) -> object:
    return answer.signer if isinstance(answer, Lineage) else answer


def _status() -> LaneStatus:
    return LaneStatus(FIRST, "open", None, 0, 0)


async def test_a_delegated_signer_has_one_in_flight(engine: Engine) -> None:
    """Goal: nodes take one transaction at a time from it, and the lane asks no more. Method: EIP-7702 code on one of
    two signers; of eight wishes the lane gets one and the other its four, the rest wait; without the code, four."""
    await told(engine, "anvil_setCode", str(FIRST), "0xef0100" + "77" * 20)
    await look(engine)
    assert (await lanes(engine))[FIRST].is_delegated
    wishes = await engine.attempts(8)
    answers = list(await engine.journal.allocate_many([Allocation(one, any_call()) for one in wishes]))
    chosen = [_of(answer) for answer in answers]
    assert (chosen.count(FIRST), chosen.count(SECOND)) == (1, engine.settings.lane_depth)
    assert [type(answer) for answer in answers[5:]] == [NoLaneOpen] * 3
    await told(engine, "anvil_setCode", str(FIRST), "0x")
    await look(engine)
    later = await engine.attempts(8, key="later")
    answers = list(await engine.journal.allocate_many([Allocation(one, any_call()) for one in later]))
    assert [_of(answer) for answer in answers].count(FIRST) == engine.settings.lane_depth - 1
    assert [kind for kind, _ in await findings(engine)] == ["delegated", "undelegated"]


async def _gate(engine: Engine, allowed: bytes | None) -> Call:
    """A contract that lets one caller in, or everybody."""
    #  caller, push20 allowed, eq, push1 29, jumpi, push0, push0, revert, jumpdest, stop
    code = "0x00" if allowed is None else f"0x3373{allowed.hex()}14601d575f5ffd5b00"
    await told(engine, "anvil_setCode", str(GATE), code)
    return Call(GATE, b"")


async def test_a_signer_without_its_role_is_a_blocked_lane_and_its_job_goes_on_in_another(engine: Engine) -> None:
    """Goal: on-chain membership is authoritative, and no job is lost by it. Method: a contract lets in one of two
    signers; the job whose turn falls on the other is moved, its nonce given back, and completes; the lane says why;
    a probe opens it only once the contract lets it in."""
    call = await _gate(engine, FIRST.value)
    attempts = await engine.attempts(3)
    assert await execute(engine, attempts[0], call) == Ended()
    moved = await execute(engine, attempts[1], call)
    assert isinstance(moved, Postponed)
    assert "blocked" in moved.reason
    lane = (await lanes(engine))[SECOND]
    assert lane.state == "blocked"
    assert lane.state_reason is not None
    assert "this signer alone" in lane.state_reason
    assert await execute(engine, attempts[1], call) == Ended()
    engine.executor.blocked.next_probe_at = 0
    assert await execute(engine, attempts[2], call) == Ended()
    assert (await lanes(engine))[SECOND].state == "blocked"
    await _gate(engine, None)
    (later,) = await engine.attempts(1, key="later")
    assert await execute(engine, later, call) == Ended()
    assert (await lanes(engine))[SECOND].state == "blocked", "a minute is not over"
    engine.executor.blocked.next_probe_at = 0
    (last,) = await engine.attempts(1, key="last")
    assert await execute(engine, last, call) == Ended()
    assert (await lanes(engine))[SECOND].state == "open"
    await engine.tick_and_mine(3)
    assert set(await states(engine, [*attempts, later, last])) == {"completed"}
    assert [kind for kind, _ in await findings(engine)] == ["blocked", "unblocked"]
    await check_invariants(engine.plane.database, engine.node, engine.contract)


async def test_a_call_that_reverts_for_everybody_blocks_no_lane(engine: Engine) -> None:
    """Goal: a bad call is the job's fault. Method: a nonce is reserved while the contract lets all in, then it lets
    nobody in: the job ends `not_actionable` and both lanes are open."""
    call = await _gate(engine, None)
    (attempt,) = await engine.attempts(1)
    await engine.journal.allocate_many([Allocation(attempt, call)])
    await _gate(engine, b"\x55" * 20)
    attempt = await taken_over(engine, attempt)
    assert await execute(engine, attempt, call) == Ended()
    assert await states(engine, [attempt]) == ["not_actionable"]
    assert {lane.state for lane in (await lanes(engine)).values()} == {"open"}


async def test_a_dropped_mempool_is_told_once_and_sent_again(engine: Engine) -> None:
    """Goal: the pools lost what a node took. Method: without blocks, four jobs go out and the node's pool is emptied;
    two looks tell it once a lane; one tick sends all four again, lowest nonce first; the pool shows them, the
    episode is over, and all complete."""
    await told(engine, "evm_setAutomine", False)
    attempts = await engine.attempts(4)
    for attempt in attempts:
        assert await execute(engine, attempt) == Ended()
    await look(engine)
    assert await findings(engine) == []
    await told(engine, "anvil_dropAllTransactions")
    await look(engine)
    await look(engine)
    assert [kind for kind, _ in await findings(engine)] == ["dropped_mempool"] * 2
    before = await rows(engine, "SELECT max(broadcast_id) FROM transactions.broadcasts")
    await engine.reconciler.tick()
    sent = await rows(
        engine,
        "SELECT signer, nonce FROM transactions.broadcasts JOIN transactions.members USING (tx_hash)"
        " WHERE broadcast_id > $1 ORDER BY broadcast_id",
        before[0][0],
    )
    assert len(sent) == 4
    assert sent == sorted(sent)
    await look(engine)
    assert await rows(engine, "SELECT is_pool_dropped FROM transactions.lanes") == [(False,)] * 2
    await engine.tick_and_mine(3)
    assert set(await states(engine, attempts)) == {"completed"}
    assert len(await findings(engine)) == 2


async def test_nonces_used_elsewhere_move_the_fence_when_they_are_final(engine: Engine) -> None:
    """Goal: the lane goes on behind them, every nonce accounted for. Method: two foreign transactions of a lane; while
    a reorganisation could still take them back the lane takes nothing; then the fence stands behind them, with a row
    each and one finding; a job of the lane completes."""
    fence = (await lanes(engine))[FIRST].next_nonce
    await use_elsewhere(engine, FIRST, 2)
    await look(engine)
    assert (await lanes(engine))[FIRST].next_nonce == fence
    earlier = await engine.attempts(1)
    (answer,) = await engine.journal.allocate_many([Allocation(earlier[0], any_call())])
    assert _of(answer) == SECOND
    await mine(engine, LOOKBACK)
    watch = watch_of(engine)
    await look(engine, watch)
    await look(engine, watch)
    assert (await lanes(engine))[FIRST].next_nonce == fence + 2
    assert await findings(engine) == [("foreign_nonce", {"from": fence, "to": fence + 1})]
    noted = await rows(engine, "SELECT signer, world, nonce FROM transactions.foreign_nonces ORDER BY nonce")
    assert noted == [(FIRST.value, 1, fence), (FIRST.value, 1, fence + 1)]
    attempts = [*earlier, *await engine.attempts(2, key="later")]
    for attempt in attempts:
        assert await execute(engine, attempt) == Ended()
    signed = await rows(engine, "SELECT nonce FROM transactions.members WHERE signer = $1", FIRST.value)
    assert signed == [(fence + 2,)]
    await engine.tick_and_mine(3)
    assert set(await states(engine, attempts)) == {"completed"}
    await check_invariants(engine.plane.database, engine.node, engine.contract)


async def test_a_job_whose_unsigned_nonce_was_used_elsewhere_takes_another(engine: Engine) -> None:
    """Goal: never signed, so it may go on at a new nonce, and only so. Method: a nonce is reserved and its bytes made
    ready; somebody else uses it; the attempt postpones rather than sign; when that is final the lineage is superseded
    and the job let go, and the old attempt's bytes are refused; the next attempt completes it at another nonce."""
    (attempt,) = await engine.attempts(1)
    (lineage,) = await engine.journal.allocate_many([Allocation(attempt, any_call())])
    assert isinstance(lineage, Lineage)
    signed = await engine.executor.sign(lineage)
    assert isinstance(signed, SignedMember)
    await use_elsewhere(engine, lineage.signer)
    await look(engine)
    attempt = await taken_over(engine, attempt)
    postponed = await execute(engine, attempt)
    assert isinstance(postponed, Postponed)
    assert "used by somebody else" in postponed.reason
    await mine(engine, LOOKBACK)
    await look(engine)
    assert await engine.state(lineage.lineage_id) == "superseded"
    assert await states(engine, [attempt]) == ["retry"]
    (answer,) = await engine.journal.persist_many([Persistence(attempt, signed)])
    assert isinstance(answer, StaleAttempt)
    again = await taken_over(engine, attempt)
    assert await execute(engine, again) == Ended()
    await engine.tick_and_mine(3)
    assert await states(engine, [again]) == ["completed"]
    record = await engine.plane.coordination.inspect(again.job_id)
    assert record is not None
    assert [one.state for one in record.attempts] == ["lost", "returned", "confirming"]
    assert await rows(engine, "SELECT kind FROM transactions.events ORDER BY event_id") == [("superseded",), ("mined",)]
    await check_invariants(engine.plane.database, engine.node, engine.contract)


async def test_a_database_that_lost_commits_under_us_halts_the_pool(engine: Engine) -> None:
    """Goal: our own forgotten nonces never pass for foreign ones. Method: a watch has seen the fence; a job is mined;
    the lineage and the fence are undone, as a restored standby would have them; the next look halts."""
    (attempt,) = await engine.attempts(1)
    assert await execute(engine, attempt) == Ended()
    watch = watch_of(engine)
    await look(engine, watch)
    async with engine.plane.database.connection() as connection:
        await connection.execute(
            "UPDATE transactions.lanes SET next_nonce = next_nonce - 1 WHERE signer = $1", FIRST.value
        )
    with pytest.raises(PoolHalted):
        await look(engine, watch)
    assert [halt.kind for halt in await engine.executor.halts.open()] == ["chain_ahead"]
    assert await findings(engine) == []
