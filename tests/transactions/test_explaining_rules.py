"""Each cause of a transaction that is not final, from the facts that show it, and what is told first."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from tayho.kernel.address import Address
from tayho.transactions.explaining.rules import explain_lineage
from tayho.transactions.explaining.types import (
    BroadcastRecord,
    EngineRules,
    EventRecord,
    HaltRecord,
    LaneFacts,
    LineageFacts,
    LineageWhole,
    MemberSeen,
    NodeSight,
    TxCause,
)
from tayho.transactions.types import MemberRecord

NOW = datetime(2026, 12, 1, 12, 0, 0, tzinfo=UTC)
HASH, OLDER = b"\xaa" * 32, b"\xbb" * 32
GWEI = 10**9
MEMBER = MemberRecord(
    tx_hash=HASH,
    member_number=1,
    state="broadcast",
    gas_limit=21_000,
    max_fee_per_gas_wei=20 * GWEI,
    max_priority_fee_per_gas_wei=GWEI,
    key_id="k",
    transaction_type=2,
    is_cancellation=False,
    signed_at=NOW - timedelta(seconds=30),
    broadcasts=1,
    block_number=None,
    block_hash=None,
    succeeded=None,
    gas_used=None,
    effective_gas_price_wei=None,
)
WHOLE = LineageWhole(
    lineage_id=UUID(int=1),
    purpose="call",
    job_id=UUID(int=2),
    chain_id=1,
    environment="test",
    role="automation",
    signer=Address(b"\x01" * 20),
    world=1,
    nonce=7,
    call_hash=b"\xcc" * 32,
    to_address=Address(b"\x02" * 20),
    value_wei=0,
    call_data_bytes=4,
    state="broadcast",
    state_reason=None,
    hold=None,
    hold_reason=None,
    held_at=None,
    bump_requested_at=None,
    cancel_requested_at=None,
    included_block_number=None,
    check_at=NOW + timedelta(seconds=5),
    allocated_at=NOW - timedelta(seconds=31),
    ended_at=None,
    members=(MEMBER,),
    broadcasts=(),
    receipts=(),
    events=(),
    findings=(),
)
LANE = LaneFacts("open", None, 9, 7, 8, 10**18, False, NOW, 7, UUID(int=1))
RULES = EngineRules(
    confirmations=12, reorg_lookback_blocks=64, stuck_seconds=90, replacements_max=8, reconcile_seconds=5
)


def seen(tx_hash: bytes = HASH, *, is_known: bool = True, block: int | None = None) -> MemberSeen:
    return MemberSeen(
        tx_hash, is_known, block, None if block is None else b"\x10" * 32, None if block is None else True
    )


NODE = NodeSight("https://one", 100, 10 * GWEI, 7, 8, (seen(),))
FACTS = LineageFacts(WHOLE, LANE, (), RULES, NOW, (NODE, evolve(NODE, endpoint="https://two")))


def facts(*nodes: NodeSight, lane: dict[str, Any] | None = None, member: dict[str, Any] | None = None, **whole: Any):
    """The facts of a transaction in the pool at the market's fee, with these changes."""
    members = (evolve(MEMBER, **(member or {})),)
    return evolve(
        FACTS,
        whole=evolve(WHOLE, **{"members": members, **whole}),
        lane=evolve(LANE, **(lane or {})),
        nodes=nodes or FACTS.nodes,
    )


def held(hold: str) -> LineageFacts:
    return facts(hold=hold, hold_reason="because of it", held_at=NOW)


BLIND = evolve(NODE, members=(seen(is_known=False),))
MINED = evolve(NODE, latest_nonce=8, members=(seen(block=95),))
DOWN = NodeSight("https://down", problem="connection refused")
HALT = HaltRecord("chain_reset", {}, "one", NOW)
UN_MINED = EventRecord("un_mined", HASH, {}, NOW)
TIMED_OUT = BroadcastRecord(HASH, "https://w", "unknown", "ambiguous", "no answer within 10 s", "one", NOW)

CASES = {
    "in the pool at the market's fee": (FACTS, TxCause.IN_MEMPOOL, "2 of 2 nodes have it pending"),
    "final": (facts(state="mined", included_block_number=10, ended_at=NOW), TxCause.FINAL, "mined, in block 10"),
    "superseded": (facts(state="superseded", state_reason="why", ended_at=NOW), TxCause.FINAL, "superseded: why"),
    "seen in a block by the quorum": (
        facts(included_block_number=95),
        TxCause.WAITING_FOR_CONFIRMATIONS,
        "final at block 107; the head is 100, so 7 more",
    ),
    "seen in a block by most nodes": (facts(MINED, MINED, BLIND), TxCause.WAITING_FOR_CONFIRMATIONS, "block 95"),
    "seen in a block by few nodes": (facts(MINED, NODE, NODE), TxCause.IN_MEMPOOL, "3 of 3"),
    "below the base fee": (
        facts(member={"max_fee_per_gas_wei": GWEI}),
        TxCause.UNDERPRICED,
        "the base fee is 10000000000",
    ),
    "stuck for long": (
        facts(member={"signed_at": NOW - timedelta(seconds=91)}),
        TxCause.UNDERPRICED,
        "longer than TX_STUCK_SECONDS (90)",
    ),
    "an operator's bump": (facts(bump_requested_at=NOW), TxCause.UNDERPRICED, "an operator asked"),
    "behind a lower nonce": (
        facts(lane={"lowest_open_nonce": 5, "lowest_open_lineage_id": UUID(int=9)}),
        TxCause.BEHIND_LOWER_NONCE,
        "Nonce 5",
    ),
    "fee capped": (held("fee_capped"), TxCause.FEE_CAPPED, "TX_MAX_FEE_PER_GAS_WEI since 2026-12-01"),
    "replacements spent": (held("replacements_spent"), TxCause.REPLACEMENTS_SPENT, "because of it"),
    "underfunded": (held("underfunded"), TxCause.UNDERFUNDED, "because of it"),
    "limits": (held("limits"), TxCause.LIMITS, "because of it"),
    "refused": (held("refused"), TxCause.REFUSED, "because of it"),
    "mined, result missing": (
        facts(included_block_number=10, hold="result_missing", hold_reason="because of it", held_at=NOW),
        TxCause.RESULT_MISSING,
        "because of it",
    ),
    "nonce used, by the quorum": (held("nonce_used"), TxCause.NONCE_USED, "because of it"),
    "nonce used, by the nodes": (
        facts(evolve(BLIND, latest_nonce=8), evolve(BLIND, latest_nonce=8)),
        TxCause.NONCE_USED,
        "nonce is 8",
    ),
    "ambiguous": (
        facts(BLIND, DOWN, member={"state": "ambiguous"}, state="signed", broadcasts=(TIMED_OUT,)),
        TxCause.AMBIGUOUS,
        "https://w answered ambiguous (no answer within 10 s)",
    ),
    "in doubt, and yet in a pool": (facts(member={"state": "ambiguous"}, state="signed"), TxCause.IN_MEMPOOL, "2 of 2"),
    "signed and never sent": (
        facts(BLIND, member={"state": "signed"}, state="signed"),
        TxCause.UNSENT,
        "no node has taken it",
    ),
    "dropped": (facts(BLIND, BLIND), TxCause.DROPPED, "none of 2"),
    "nobody can say": (facts(DOWN, DOWN), TxCause.UNSEEN, "https://down: connection refused"),
    "nobody was asked": (evolve(FACTS, nodes=()), TxCause.IN_MEMPOOL, "none was asked now"),
    "halted": (evolve(FACTS, halts=(HALT,)), TxCause.HALTED, "chain_reset, found by one"),
    "reorganised": (
        facts(
            BLIND, member={"state": "signed"}, state="signed", events=(EventRecord("mined", HASH, {}, NOW), UN_MINED)
        ),
        TxCause.REORGANISED,
        "took its block away",
    ),
    "reorganised and mined again": (
        facts(included_block_number=99, events=(UN_MINED,)),
        TxCause.WAITING_FOR_CONFIRMATIONS,
        "block 99",
    ),
    "allocated": (facts(state="allocated", members=()), TxCause.ALLOCATED, "waits for an attempt of its job"),
    "an unsigned filler": (
        facts(state="allocated", members=(), purpose="filler", job_id=None),
        TxCause.ALLOCATED,
        "keeps its lane without a gap",
    ),
}


@pytest.mark.parametrize(("known", "cause", "words"), CASES.values(), ids=CASES)
def test_each_cause_is_told_from_the_facts_that_show_it(known: LineageFacts, cause: TxCause, words: str) -> None:
    """Goal: the answer to "why is it stuck" is the right one, in front, with something to do. Method: facts that show
    each cause, and those that nearly do."""
    told = explain_lineage(known)
    assert told.causes[0].code is cause
    assert words in told.summary
    assert told.summary == told.causes[0].sentence
    assert told.next_action
    assert "None" not in f"{told.summary} {told.next_action}"


def test_every_cause_has_a_case() -> None:
    """Goal: no cause without a test. Method: the enumeration against the table and the two that only come beside."""
    assert set(TxCause) == {cause for _, cause, _ in CASES.values()} | {TxCause.LANE_HELD, TxCause.CANCEL_REQUESTED}


@pytest.mark.parametrize("state", ["draining", "blocked", "underfunded"])
def test_a_lane_that_takes_nothing_new_and_a_wish_are_told_beside_the_cause(state: str) -> None:
    """Goal: a closed lane is named, and not blamed: what it has goes on. Method: each closed state, and a cancellation
    that is wanted; a final lineage tells of neither."""
    told = explain_lineage(facts(lane={"state": state, "state_reason": "why"}, cancel_requested_at=NOW))
    assert [one.code for one in told.causes] == [TxCause.IN_MEMPOOL, TxCause.CANCEL_REQUESTED, TxCause.LANE_HELD]
    assert f"{state} (why)" in told.causes[2].sentence
    ended = facts(lane={"state": state}, state="mined", ended_at=NOW, cancel_requested_at=NOW)
    assert [one.code for one in explain_lineage(ended).causes] == [TxCause.FINAL]


def test_the_next_moment_is_told_where_it_is_known() -> None:
    """Goal: "and when". Method: the time of the bump ahead and behind, the next look, none for a wait for blocks."""
    assert explain_lineage(FACTS).next_at == MEMBER.signed_at + timedelta(seconds=90)
    assert explain_lineage(facts(member={"signed_at": NOW - timedelta(hours=1)})).next_at == NOW
    assert explain_lineage(facts(BLIND, BLIND)).next_at == WHOLE.check_at
    assert explain_lineage(facts(included_block_number=95)).next_at is None


def test_a_hold_is_told_before_what_it_explains_and_a_halt_before_everything_open() -> None:
    """Goal: the first cause is the one to act on. Method: all of them at once."""
    known = evolve(
        facts(
            hold="underfunded",
            hold_reason="x",
            held_at=NOW,
            lane={"lowest_open_nonce": 5, "lowest_open_lineage_id": UUID(int=9)},
            events=(UN_MINED,),
        ),
        halts=(HALT,),
    )
    assert [one.code for one in explain_lineage(known).causes] == [
        TxCause.HALTED,
        TxCause.REORGANISED,
        TxCause.UNDERFUNDED,
        TxCause.BEHIND_LOWER_NONCE,
        TxCause.IN_MEMPOOL,
    ]


_SIGHTS = st.lists(
    st.builds(
        NodeSight,
        endpoint=st.just("node"),
        head_block_number=st.none() | st.integers(0, 200),
        base_fee_per_gas_wei=st.none() | st.integers(0, 40 * GWEI),
        latest_nonce=st.none() | st.integers(0, 10),
        pending_nonce=st.none() | st.integers(0, 10),
        members=st.sampled_from([(), (seen(),), (seen(is_known=False),), (seen(block=95),), (seen(OLDER, block=96),)]),
        problem=st.none() | st.just("down"),
    ),
    max_size=4,
)


@given(
    _SIGHTS,
    st.sampled_from(["signed", "broadcast"]),
    st.sampled_from(["signed", "ambiguous", "broadcast"]),
    st.none() | st.integers(0, 200),
)
def test_there_is_always_an_answer(nodes: list[NodeSight], state: str, member_state: str, included: int | None) -> None:
    """Goal: no facts, however contradictory, leave a person without a cause and something to do, and none is told
    final that is not. Method: any sights of any nodes."""
    known = evolve(
        facts(member={"state": member_state}, state=state, included_block_number=included), nodes=tuple(nodes)
    )
    told = explain_lineage(known)
    assert told.causes
    assert told.next_action
    assert TxCause.FINAL not in {one.code for one in told.causes}
    if included is not None:
        assert told.causes[0].code is TxCause.WAITING_FOR_CONFIRMATIONS
