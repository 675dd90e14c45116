"""The rules of replacement, whatever the market, the limits and the past (TX-7, TX-10)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st

from rpc.values import Receipt
from tayho.kernel.address import Address
from tayho.kernel.call_hash import call_hash
from tayho.kernel.ids import new_id
from tayho.kinds import Call
from tayho.transactions.replacing.rules import FEE_CAPPED, OURS, SPENT, UNDERPRICED, decide, pays
from tayho.transactions.replacing.types import Candidate, Decision, Keep, LetBe, Limits, Release, Replace, Sight
from tayho.transactions.types import Fee, Lineage, Market, OpenMember

SIGNER = Address(b"\x11" * 20)
CALL = Call(Address(b"\x22" * 20), b"\x01")
RECEIPT = cast("Receipt", object())
HOLDS = ("fee_capped", "replacements_spent", "underfunded", "limits", "refused", "nonce_used")
NO_CEILING = 2**80
wei = st.integers(0, 2_000) | st.integers(0, 2**72)
flags = st.booleans()


def lineage(nonce: int) -> Lineage:
    return Lineage(new_id(), "call", new_id(), 1, SIGNER, nonce, CALL, call_hash(1, CALL.to, 0, CALL.data), "broadcast")


@st.composite
def fees(draw: st.DrawFn, transaction_type: int) -> Fee:
    max_fee = draw(wei.filter(bool))
    return Fee(max_fee, max_fee if transaction_type == 0 else draw(st.integers(0, max_fee)))


@st.composite
def spoilt(draw: st.DrawFn, whole: Mapping[str, object], drawn: Mapping[str, st.SearchStrategy[object]]) -> Any:
    """The values of something that is ripe to be replaced, but for up to three, which are anything."""
    names = draw(st.sets(st.sampled_from(sorted(drawn)), max_size=3))
    return {**whole, **{name: draw(drawn[name]) for name in sorted(names)}}


RIPE = {
    "hold": None,
    "was_paying_when_held": False,
    "answer_reason": None,
    "is_lowest": True,
    "is_overdue": True,
    "was_behind": False,
    "is_bump_wanted": False,
    "is_cancel_wanted": False,
}
ANYHOW = {
    **dict.fromkeys(RIPE, flags),
    "hold": st.none() | st.sampled_from(HOLDS),
    "answer_reason": st.sampled_from([None, UNDERPRICED, "insufficient_funds"]),
}


@st.composite
def candidates(draw: st.DrawFn) -> Candidate:
    calls, cancellations = draw(st.integers(1, 4)), draw(st.integers(0, 3))
    hashes = tuple(bytes([number]) * 32 for number in range(calls + cancellations))
    transaction_type = draw(st.sampled_from([0, 2]))
    active = OpenMember(
        tx_hash=hashes[-1],
        member_number=len(hashes),
        state=draw(st.sampled_from(["signed", "ambiguous", "broadcast"])),
        is_cancellation=cancellations > 0,
        transaction_type=transaction_type,
        gas_limit=21_000,
        fee=draw(fees(transaction_type)),
    )
    return Candidate(
        lineage=lineage(draw(st.integers(1, 3))),
        tx_hashes=hashes,
        active=active,
        cancellations=cancellations,
        **draw(spoilt(RIPE, ANYHOW)),
    )


@st.composite
def sights(draw: st.DrawFn, candidate: Candidate) -> Sight:
    hashes, nonce = candidate.tx_hashes, candidate.lineage.nonce
    unmined: dict[bytes, Receipt | None] = dict.fromkeys(hashes)
    anyhow = {
        "receipts": st.dictionaries(st.sampled_from(hashes), st.sampled_from([None, RECEIPT])),
        "nonces": st.sampled_from([{}, {SIGNER: nonce - 1}, {SIGNER: nonce + 1}]),
    }
    incumbent = draw(st.none() | fees(candidate.active.transaction_type))
    return Sight(
        market=Market(draw(st.none() | wei), draw(wei), 1),
        incumbents={} if incumbent is None else {candidate.active.tx_hash: incumbent},
        **draw(spoilt({"receipts": unmined, "nonces": {SIGNER: nonce}}, anyhow)),
    )


limits = st.builds(
    Limits,
    bump_basis_points=st.integers(1_000, 10_000),
    fee_wei_max=st.just(NO_CEILING) | wei.filter(bool),
    replacements_max=st.just(8) | st.integers(0, 6),
)


def is_higher(new: int, old: int, basis_points: int) -> bool:
    return new * 10_000 >= old * (10_000 + basis_points) and new > old


@settings(max_examples=400, deadline=None)
@given(st.data())
def test_a_replacement_keeps_every_promise(data: st.DataObject) -> None:
    """Goal: TX-7 and TX-10 for any past, market and limits. Method: draw all of them; whatever is signed is surely
    unmined, wanted, next on the chain unless it is a first cancellation, higher in both fields than all that is known
    at the nonce, rounded up, within the ceiling, no more often than allowed, and never a call again once cancelled."""
    candidate, allowed = data.draw(candidates()), data.draw(limits)
    sight = data.draw(sights(candidate))
    act = decide(candidate, sight, allowed)
    if not isinstance(act, Replace):
        return
    assert [sight.receipts.get(tx_hash, RECEIPT) for tx_hash in candidate.tx_hashes] == [None] * len(
        candidate.tx_hashes
    )
    is_first_cancellation = candidate.is_cancel_wanted and not candidate.active.is_cancellation
    assert act.is_cancellation == (is_first_cancellation or candidate.active.is_cancellation)
    if is_first_cancellation:
        assert sight.nonces[SIGNER] <= candidate.lineage.nonce
    else:
        assert candidate.is_lowest
        assert sight.nonces[SIGNER] == candidate.lineage.nonce
        assert candidate.is_overdue or candidate.is_bump_wanted
        spent = candidate.cancellations - 1 if act.is_cancellation else len(candidate.tx_hashes) - 1
        assert spent < allowed.replacements_max
    assert act.fee.max_fee_per_gas_wei <= allowed.fee_wei_max
    assert 0 <= act.fee.max_priority_fee_per_gas_wei <= act.fee.max_fee_per_gas_wei
    known = [candidate.active.fee, *sight.incumbents.values()] if candidate.answer_reason == UNDERPRICED else []
    for old in known or [candidate.active.fee]:
        basis_points = allowed.bump_basis_points
        assert is_higher(act.fee.max_fee_per_gas_wei, old.max_fee_per_gas_wei, basis_points)
        assert is_higher(act.fee.max_priority_fee_per_gas_wei, old.max_priority_fee_per_gas_wei, basis_points)
    assert act.fee.max_fee_per_gas_wei >= sight.market.floor_wei


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_a_hold_changes_once_and_never_another_ones(data: st.DataObject) -> None:
    """Goal: holds do not come and go by themselves. Method: draw; apply the decision, and decide again of the same
    chain: nothing more changes, and a hold that is not of these rules stands."""
    candidate, allowed = data.draw(candidates()), data.draw(limits)
    sight = data.draw(sights(candidate))
    act = decide(candidate, sight, allowed)
    if not isinstance(act, Keep | Release):
        return
    assert candidate.hold is None or candidate.hold in OURS
    again = decide(_after(candidate, act), sight, allowed)
    assert isinstance(again, LetBe), (act, again)


def _after(candidate: Candidate, act: Decision) -> Candidate:
    """As the next round reads it: a lifted hold gives the transaction its time anew."""
    if isinstance(act, Keep):
        return evolve(candidate, hold=act.hold, was_paying_when_held=act.pays_the_market)
    return evolve(candidate, hold=None, is_overdue=False, is_bump_wanted=False, is_cancel_wanted=False)


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_what_is_stuck_is_bumped_or_shown(data: st.DataObject) -> None:
    """Goal: nothing that is stuck stays out of sight (I8). Method: draw what is overdue and next, and held by nobody
    else; either a replacement comes of it, or a hold stands or is lifted; or it was behind and can be mined now."""
    hold = data.draw(st.sampled_from([None, FEE_CAPPED, SPENT]))
    candidate = evolve(data.draw(candidates()), is_lowest=True, is_overdue=True, hold=hold)
    sight = Sight(
        market=Market(data.draw(st.none() | wei), data.draw(wei), 1),
        receipts=dict.fromkeys(candidate.tx_hashes),
        nonces={SIGNER: candidate.lineage.nonce},
        incumbents={},
    )
    act = decide(candidate, sight, data.draw(limits))
    if isinstance(act, LetBe):
        assert candidate.hold is not None or (candidate.was_behind and pays(candidate.active.fee, sight.market))


def ripe(**changes: Any) -> Candidate:
    """A candidate that has waited too long, with nothing against a bump."""
    active = OpenMember(b"\1" * 32, 1, "broadcast", False, 2, 21_000, Fee(100, 10))
    return Candidate(
        lineage=lineage(2),
        tx_hashes=(active.tx_hash,),
        active=active,
        cancellations=0,
        **cast("Any", {**RIPE, **changes}),
    )


UNMINED = Sight(market=Market(1_000, 10, 1), incumbents={}, receipts={b"\1" * 32: None}, nonces={SIGNER: 2})
ROOM = Limits(bump_basis_points=1_250, fee_wei_max=NO_CEILING, replacements_max=8)


def test_each_thing_that_speaks_against_a_bump_is_enough() -> None:
    """Goal: no guard of the rule can be gone unnoticed, whatever chance draws. Method: a candidate that is bumped
    for sure, then the same with one thing against it each time."""
    assert isinstance(decide(ripe(), UNMINED, ROOM), Replace)
    assert not isinstance(decide(ripe(is_lowest=False), UNMINED, ROOM), Replace)
    assert not isinstance(decide(ripe(is_overdue=False), UNMINED, ROOM), Replace)
    for nonces in ({}, {SIGNER: 1}, {SIGNER: 3}):
        assert not isinstance(decide(ripe(), evolve(UNMINED, nonces=nonces), ROOM), Replace)
    for receipts in ({}, {b"\1" * 32: RECEIPT}):
        assert not isinstance(decide(ripe(), evolve(UNMINED, receipts=receipts), ROOM), Replace)
    assert not isinstance(decide(ripe(), UNMINED, evolve(ROOM, replacements_max=0)), Replace)
    assert not isinstance(decide(ripe(), UNMINED, evolve(ROOM, fee_wei_max=100)), Replace)
