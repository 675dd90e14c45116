"""What becomes of a lane: pure (TX-7, TX-9, TX-15)."""

from __future__ import annotations

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from tayho.kernel.address import Address
from tayho.transactions.fees import cost_wei
from tayho.transactions.lane_rules import (
    FILLER_GAS,
    LOW_CALLS,
    AccountView,
    foreign_until,
    forgotten_by_database,
    judge,
    needed_wei,
    room_wei,
    standing_of,
    taken_from_allocated,
)
from tayho.transactions.round_robin import choose_lanes
from tayho.transactions.types import LaneFacts, LaneStatus

SIGNER = Address(b"\x01" * 20)
CEILING = 10**11
STATUS = LaneStatus(SIGNER, "open", None, 10, 0)
FACTS = LaneFacts(STATUS, 1, False, False, 0, 0, 0, None, None)
DELEGATED = b"\xef\x01\x00" + b"\x02" * 20

_WEI = st.integers(0, 10**21)
_GAS = st.lists(st.integers(21_000, 2**24), max_size=8)


def _facts(gas: list[int], value: int, state: str = "open") -> LaneFacts:
    status = evolve(STATUS, state=state, in_flight=len(gas))
    return evolve(
        FACTS, status=status, value_in_flight_wei=value, gas_in_flight=sum(gas), gas_limit_max=max(gas, default=0)
    )


@given(_GAS, _WEI, st.integers(-3, 3))
def test_what_an_open_lane_keeps_back_pays_for_all_that_may_have_to_be_sent(
    gas: list[int], value: int, above: int
) -> None:
    """Goal: the reserve for bumps and fillers is never spent on new work. Method: any flight, a balance at the line; a
    lane that stays open can pay at the ceiling, at once, every call in flight, one more, and a filler beside; one that
    may instead have to fill every nonce can pay that."""
    facts = _facts(gas, value)
    balance = needed_wei(facts, CEILING) + above
    standing, _ = judge(facts, AccountView(balance_wei=balance), CEILING)
    new_call = room_wei(facts, CEILING)
    if standing.state == "open":
        assert balance >= value + sum(cost_wei(0, one, CEILING) for one in gas) + new_call + FILLER_GAS * CEILING
        assert balance >= (len(gas) + 1) * FILLER_GAS * CEILING + new_call
    else:
        assert balance < needed_wei(facts, CEILING)
        assert standing.state_reason is not None
        assert str(balance) in standing.state_reason


@given(_GAS, _WEI, _WEI)
def test_a_low_balance_is_told_before_it_closes_the_lane(gas: list[int], value: int, balance: int) -> None:
    """Goal: the warning comes first, and each word once. Method: any look; a closed lane was called low; the look
    repeated from where it left changes nothing and says nothing."""
    facts = _facts(gas, value)
    standing, findings = judge(facts, AccountView(balance_wei=balance), CEILING)
    assert standing.is_low == (balance < needed_wei(facts, CEILING) + LOW_CALLS * room_wei(facts, CEILING))
    assert standing.state == "open" or standing.is_low
    assert [one.kind for one in findings] == ["low_balance"] * standing.is_low + ["underfunded"] * (
        standing.state == "underfunded"
    )
    status = evolve(facts.status, state=standing.state, state_reason=standing.state_reason)
    again = evolve(facts, status=status, is_low=standing.is_low)
    assert judge(again, AccountView(balance_wei=balance), CEILING) == (standing, [])


def test_a_lane_opens_when_it_is_topped_up_by_more_than_the_line() -> None:
    """Goal: it does not close again with its next call. Method: just below one call above the line, and on it."""
    facts = _facts([], 0, "underfunded")
    enough = needed_wei(facts, CEILING) + room_wei(facts, CEILING)
    assert judge(facts, AccountView(balance_wei=enough - 1), CEILING)[0].state == "underfunded"
    standing, findings = judge(facts, AccountView(balance_wei=enough), CEILING)
    assert (standing.state, standing.state_reason) == ("open", None)
    assert "funded" in {one.kind for one in findings}


@pytest.mark.parametrize("state", ["blocked", "draining", "retired"])
@given(_WEI)
def test_money_neither_closes_nor_opens_what_is_held_for_another_reason(state: str, balance: int) -> None:
    """Goal: a top-up does not unblock a signer without its role. Method: any balance."""
    assert judge(_facts([], 0, state), AccountView(balance_wei=balance), CEILING)[0].state == state


@given(_GAS, _WEI, st.sampled_from(["open", "underfunded", "blocked"]), st.booleans(), st.booleans())
def test_what_was_not_agreed_concludes_nothing(
    gas: list[int], value: int, state: str, is_low: bool, is_dropped: bool
) -> None:
    """Goal: an unseen account is left as it is. Method: any lane, an empty view."""
    facts = evolve(_facts(gas, value, state), is_low=is_low, is_pool_dropped=is_dropped, broadcast_nonce_max=9)
    assert judge(facts, AccountView(), CEILING) == (standing_of(facts), [])
    assert foreign_until(facts, AccountView()) is None
    assert not taken_from_allocated(evolve(facts, allocated_nonce_min=0), AccountView())
    assert not forgotten_by_database(facts, AccountView(), 10**6)


@pytest.mark.parametrize(
    ("code", "is_delegated"),
    [(b"", False), (DELEGATED, True), (b"\xef\x00\x01", False), (b"\x60\x80" * 11, False)],
)
def test_a_delegation_is_known_by_its_prefix(code: bytes, is_delegated: bool) -> None:
    """Goal: EIP-7702 code and nothing else. Method: the codes, from either standing; told when it changes."""
    for was in (False, True):
        facts = evolve(FACTS, status=evolve(STATUS, is_delegated=was))
        standing, findings = judge(facts, AccountView(code=code), CEILING)
        assert standing.is_delegated == is_delegated
        told = [] if was == is_delegated else ["delegated" if is_delegated else "undelegated"]
        assert [one.kind for one in findings] == told


@pytest.mark.parametrize(
    ("broadcast", "pending", "was", "is_dropped"),
    [
        (None, 3, False, False),
        (None, 3, True, False),
        (5, 6, False, False),
        (5, 6, True, False),
        (5, 5, False, True),
        (5, 2, False, True),
        (5, 2, True, True),
    ],
)
def test_a_pool_is_lost_while_it_shows_less_than_a_node_took(
    broadcast: int | None, pending: int, was: bool, is_dropped: bool
) -> None:
    """Goal: TX-9's last pair of lines, told once an episode. Method: the table."""
    facts = evolve(FACTS, is_pool_dropped=was, broadcast_nonce_max=broadcast)
    standing, findings = judge(facts, AccountView(pending_nonce=pending), CEILING)
    assert standing.is_pool_dropped == is_dropped
    assert [one.kind for one in findings] == ["dropped_mempool"] * (is_dropped and not was)


@given(st.integers(0, 20), st.integers(0, 20), st.integers(0, 20))
def test_a_chain_ahead_is_foreign_unless_this_process_knows_better(fence: int, latest: int, seen: int) -> None:
    """Goal: a database that lost commits under us is told from a foreign use. Method: any fence, chain and memory; a
    halt only where the fence was seen at or beyond where the chain is; a fence moves only up, and exactly there."""
    facts = evolve(FACTS, status=evolve(STATUS, next_nonce=fence))
    view = AccountView(latest_nonce=latest, final_nonce=latest)
    assert forgotten_by_database(facts, view, max(seen, fence)) == (fence < latest <= max(seen, fence))
    assert foreign_until(facts, view) == (latest if latest > fence else None)


@given(st.integers(1, 20), st.integers(0, 5), st.integers(1, 40))
def test_a_delegated_lane_has_one_in_flight_and_a_used_one_none(depth: int, in_flight: int, wanted: int) -> None:
    """Goal: TX-15's depth, and no nonce that somebody else used. Method: one lane of each sort beside an ordinary one;
    count what each is given."""
    ordinary = evolve(STATUS, signer=Address(b"\x02" * 20), in_flight=in_flight)
    delegated = evolve(STATUS, is_delegated=True, in_flight=min(in_flight, 1))
    used = evolve(STATUS, signer=Address(b"\x03" * 20), latest_nonce=STATUS.next_nonce + 1)
    chosen, _ = choose_lanes([delegated, ordinary, used], 0, depth, wanted)
    room = max(depth - in_flight, 0)
    assert chosen.count(delegated.signer) <= 1 - delegated.in_flight
    assert chosen.count(ordinary.signer) <= room
    assert used.signer not in chosen
    assert len(chosen) == min(wanted, 1 - delegated.in_flight + room)
