"""Who may leave a pool, and who may take the place: decided from facts alone (OPS-7)."""

from __future__ import annotations

from uuid import UUID

import pytest
from attrs import evolve

from tayho.kernel.address import Address
from tayho.transactions.errors import (
    CheckMissing,
    LaneNotDraining,
    RotationRefused,
    SignerRetired,
    SignerTaken,
    StillOpen,
)
from tayho.transactions.pool_signers import PoolSigners
from tayho.transactions.rotating.rules import is_done, missing_of_signer, refusal_of_rotation
from tayho.transactions.rotating.types import CHECK_HOLDS_SECONDS, CheckSeen, LaneNow, RotationFacts, SignerFacts
from tayho.transactions.types import LaneStatus

OLD, NEW, OTHER = (Address(bytes([number]) * 20) for number in (1, 2, 3))
DRAINING = LaneNow(OLD, "live", "payouts", "draining", 7)
GOOD = SignerFacts(
    lane=DRAINING,
    is_halted=False,
    lookback_blocks=64,
    open_lineages=0,
    revivable_lineages=0,
    revivable_block_number_max=None,
    head_block_number=1_000,
    latest_nonce=7,
    final_nonce=7,
    pending_nonce=7,
)


def test_a_signer_with_nothing_left_may_go() -> None:
    """Goal: the check can pass at all. Method: everything holds."""
    assert missing_of_signer(GOOD) == ()


@pytest.mark.parametrize(
    ("change", "code", "words"),
    [
        ({"lane": evolve(DRAINING, state="open")}, "not_draining", "signer-drain"),
        ({"is_halted": True}, "halted", "halted"),
        ({"open_lineages": 1}, "open", "1 of its transactions"),
        ({"head_block_number": None}, "head", "no head"),
        ({"revivable_lineages": 2, "revivable_block_number_max": 980}, "revivable", "wait for block 1044"),
        ({"latest_nonce": None}, "nonce_head", "not agreed"),
        ({"latest_nonce": 8}, "nonce_head", "is 8, and the lane's fence 7"),
        ({"final_nonce": None}, "nonce_final", "not agreed"),
        ({"final_nonce": 6}, "nonce_final", "64 blocks below"),
        ({"pending_nonce": None}, "nonce_pools", "not agreed"),
        ({"pending_nonce": 8}, "nonce_pools", "pools is 8"),
    ],
)
def test_each_single_missing_condition_keeps_a_signer(change: dict[str, object], code: str, words: str) -> None:
    """Goal: no condition is implied by another. Method: one is broken at a time; its code alone comes, with words that
    say what to do or what was seen."""
    (missing,) = missing_of_signer(evolve(GOOD, **change))
    assert missing.code == code
    assert words in missing.sentence


PASSED = CheckSeen(UUID(int=1), has_passed=True, nonce_fence=7, age_seconds=60.0)
HANDED = RotationFacts(DRAINING, None, PASSED, 0)


@pytest.mark.parametrize(
    ("facts", "refusal"),
    [
        (HANDED, None),
        (evolve(HANDED, check=evolve(PASSED, age_seconds=CHECK_HOLDS_SECONDS)), None),
        (evolve(HANDED, check=evolve(PASSED, age_seconds=CHECK_HOLDS_SECONDS + 1)), CheckMissing),
        (evolve(HANDED, check=None), CheckMissing),
        (evolve(HANDED, check=evolve(PASSED, has_passed=False)), CheckMissing),
        (evolve(HANDED, check=evolve(PASSED, nonce_fence=6)), CheckMissing),
        (evolve(HANDED, open_lineages=1), StillOpen),
        (evolve(HANDED, old=evolve(DRAINING, state="open")), LaneNotDraining),
        (evolve(HANDED, old=evolve(DRAINING, state="retired")), SignerRetired),
        (evolve(HANDED, old=evolve(DRAINING, role="revenue")), SignerTaken),
        (evolve(HANDED, old=evolve(DRAINING, environment="test")), SignerTaken),
        (evolve(HANDED, new=LaneNow(NEW, "live", "payouts", "open", 0)), SignerTaken),
        (evolve(HANDED, new=LaneNow(NEW, "live", "revenue", "open", 0)), SignerTaken),
        (evolve(HANDED, new=LaneNow(NEW, "live", "payouts", "retired", 0)), SignerRetired),
        # Handed over before, by this very act, whose answer was lost.
        (evolve(HANDED, old=evolve(DRAINING, state="retired"), new=LaneNow(NEW, "", "", "open", 0, OLD)), None),
        # The other one came from elsewhere.
        (
            evolve(HANDED, old=evolve(DRAINING, state="retired"), new=LaneNow(NEW, "", "", "open", 0, OTHER)),
            SignerTaken,
        ),
        # A pool that is widened.
        (RotationFacts(None, None, None, 0), None),
        (RotationFacts(None, LaneNow(NEW, "live", "payouts", "retired", 0), None, 0), SignerRetired),
    ],
)
def test_when_a_place_is_handed_over(facts: RotationFacts, refusal: type[RotationRefused] | None) -> None:
    """Goal: within 15 minutes of a pass, with nothing taken since, and to a signer that is nowhere else. Method: one
    circumstance at a time."""
    found = refusal_of_rotation(NEW, facts, "live", "payouts")
    assert type(found) is (type(None) if refusal is None else refusal)
    assert is_done(facts) is (facts.new is not None and facts.new.predecessor == OLD)


def test_a_process_takes_nonces_of_members_whose_keys_it_has() -> None:
    """Goal: a place without a key here, and a key without a place, are passed by. Method: three looks at a pool whose
    membership changes; with no member at hand every key is still known to simulate with."""
    signers = PoolSigners([OLD, NEW])
    lanes = [LaneStatus(one, "open", None, 0, 0) for one in (OLD, NEW, OTHER)]
    assert [lane.signer for lane in signers.usable([lanes[0], lanes[2]])] == [OLD]
    assert signers.serving == (OLD,)
    assert [lane.signer for lane in signers.usable(lanes[1:])] == [NEW]
    assert signers.serving == (NEW,)
    assert signers.usable(lanes[2:]) == []
    assert signers.serving == (OLD, NEW)
