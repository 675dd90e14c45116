"""The fee policy: first fees, bumps, tips, gas, reserves (TX-7, TX-8). Pure; any market, any history."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from math import ceil

import pytest
from attrs import evolve
from hypothesis import assume, given
from hypothesis import strategies as st

from rpc.values import FeeHistory
from tayho.transactions.errors import EstimateAbsurd, MarketAboveCeiling, MarketAbsurd
from tayho.transactions.fees import (
    BASE_FEE_HEADROOM_BLOCKS,
    BASIS_POINTS,
    BLOB,
    GAS_BUFFER_BASIS_POINTS,
    INTRINSIC_GAS,
    SET_CODE,
    TIP_JUMP_MAX,
    base_fee_after,
    bounded_tip,
    buffered_gas,
    bump,
    cost_wei,
    fee_for_market,
    gas_limit_for,
    reserve_wei,
    tip_from,
)
from tayho.transactions.types import DYNAMIC, LEGACY, Fee, FeeCapped, Market

WEI = st.one_of(st.integers(0, 40), st.integers(0, 10**13))
CEILINGS = st.one_of(st.integers(1, 100), st.integers(1, 2 * 10**13))
MARKETS = st.builds(Market, base_fee_wei=st.none() | WEI, tip_wei=WEI, block_number=st.just(1))
CHEAP = Market(0, 0, 1)
BUMPS = st.sampled_from([0, 1, 999, 1_000, 1_001, 1_250, 2_500, 10_000]) | st.integers(0, 30_000)
# geth's pools: core/txpool/legacypool asks 10 %, core/txpool/blobpool 100 %.
PERCENT_OF_NODES = {LEGACY: 10, DYNAMIC: 10, SET_CODE: 10, BLOB: 100}


@st.composite
def signed_fees(draw: st.DrawFn, ceiling: int, transaction_type: int) -> Fee:
    """A fee that may stand in a signed transaction of the type under the ceiling."""
    max_fee = draw(st.integers(1, ceiling))
    tip = max_fee if transaction_type == LEGACY else draw(st.integers(0, max_fee))
    blob = draw(st.integers(1, ceiling)) if transaction_type == BLOB else None
    return Fee(max_fee, tip, blob)


@st.composite
def replacements(draw: st.DrawFn) -> tuple[Fee, Market, int, int, int]:
    """A signed fee, a market, the basis points, a ceiling and the type."""
    transaction_type = draw(st.sampled_from([LEGACY, DYNAMIC, BLOB, SET_CODE]))
    ceiling = draw(CEILINGS)
    market = draw(MARKETS)
    if transaction_type != LEGACY:
        assume(market.base_fee_wei is not None)
    return draw(signed_fees(ceiling, transaction_type)), market, draw(BUMPS), ceiling, transaction_type


def bumped(old: Fee, market: Market, basis_points: int, ceiling: int, transaction_type: int) -> Fee | FeeCapped:
    return bump(old, market, bump_basis_points=basis_points, fee_wei_max=ceiling, transaction_type=transaction_type)


def fields(fee: Fee) -> list[int]:
    every = [fee.max_fee_per_gas_wei, fee.max_priority_fee_per_gas_wei, fee.max_fee_per_blob_gas_wei]
    return [wei for wei in every if wei is not None]


def geth_takes(old: int, new: int, percent: int) -> bool:
    """geth's rule: more than before, and no less than (100 + percent) / 100 of it, rounded down (list.Add)."""
    return new > old and new >= old * (100 + percent) // 100


def hardhat_takes(old: int, new: int, percent: int) -> bool:
    """hardhat's rule: the same rounded up."""
    return new >= ceil(Fraction(old * (100 + percent), 100))


@given(MARKETS, CEILINGS)
def test_a_first_fee_is_valid_covers_the_market_and_respects_the_ceiling(market: Market, ceiling: int) -> None:
    """Goal: 0 <= tip <= max fee <= ceiling, the market covered or the ceiling used whole, the tip the market's as far
    as it fits; above the ceiling nothing is offered. Method: any market, with and without a base fee."""
    if market.floor_wei > ceiling:
        with pytest.raises(MarketAboveCeiling):
            fee_for_market(market, ceiling)
        return
    fee = fee_for_market(market, ceiling)
    assert 0 <= fee.max_priority_fee_per_gas_wei <= fee.max_fee_per_gas_wei <= ceiling
    assert fee.max_fee_per_gas_wei > 0
    if market.base_fee_wei is None:
        assert fee == Fee(max(market.tip_wei, 1), max(market.tip_wei, 1))
        return
    wanted = market.base_fee_wei + market.tip_wei
    assert fee.max_fee_per_gas_wei >= wanted or fee.max_fee_per_gas_wei == ceiling
    assert fee.max_priority_fee_per_gas_wei == min(market.tip_wei, fee.max_fee_per_gas_wei)


@given(WEI, st.integers(0, 10**12))
def test_the_headroom_outlasts_six_full_blocks(base: int, tip: int) -> None:
    """Goal: after N full blocks the transaction still pays its base fee and its whole tip, and no more than rounding is
    offered beyond (9/8)^N. Method: EIP-1559's own arithmetic, block by block."""
    worst = base
    for _ in range(BASE_FEE_HEADROOM_BLOCKS):
        worst += max(worst // 8, 1)
    fee = fee_for_market(Market(base, tip, 1), 10**30)
    assert fee.max_fee_per_gas_wei - tip >= worst
    assert fee.max_fee_per_gas_wei - tip >= ceil(base * Fraction(9, 8) ** BASE_FEE_HEADROOM_BLOCKS)
    assert (
        base_fee_after(base, BASE_FEE_HEADROOM_BLOCKS) <= ceil(base * Fraction(9, 8) ** BASE_FEE_HEADROOM_BLOCKS) + 12
    )


@given(replacements())
def test_nodes_take_every_bump_and_the_ceiling_holds(case: tuple[Fee, Market, int, int, int]) -> None:
    """Goal: each field rises by the basis points and by the nodes' own rule, rounded up; nothing passes the ceiling;
    the market is covered, or the ceiling offered; the tip is never below the market's where it fits. Method: any fee
    of any type, any market, ceiling and basis points, against geth's rule and hardhat's."""
    old, market, basis_points, ceiling, transaction_type = case
    new = bumped(*case)
    if isinstance(new, FeeCapped):
        return
    percent = PERCENT_OF_NODES[transaction_type]
    assert len(fields(old)) == len(fields(new)) == (3 if transaction_type == BLOB else 2)
    for before, after in zip(fields(old), fields(new), strict=True):
        assert type(after) is int
        assert after <= ceiling
        assert after > before
        assert after * BASIS_POINTS >= before * (BASIS_POINTS + basis_points)
        assert geth_takes(before, after, percent)
        assert hardhat_takes(before, after, percent)
    assert new.max_priority_fee_per_gas_wei <= new.max_fee_per_gas_wei
    assert new.max_fee_per_gas_wei >= (market.base_fee_wei or 0) + market.tip_wei or new.max_fee_per_gas_wei == ceiling
    assert new.max_priority_fee_per_gas_wei >= min(market.tip_wei, new.max_fee_per_gas_wei)
    if transaction_type == LEGACY:
        assert new.max_fee_per_gas_wei == new.max_priority_fee_per_gas_wei


@given(replacements())
def test_a_bump_is_held_only_where_no_valid_one_exists(case: tuple[Fee, Market, int, int, int]) -> None:
    """Goal: FeeCapped is neither too eager nor too late. Method: the least rise of each field, by fractions."""
    old, market, basis_points, ceiling, transaction_type = case
    rise = Fraction(max(basis_points, 100 * PERCENT_OF_NODES[transaction_type]), BASIS_POINTS)
    least = [max(ceil(before * (1 + rise)), before + 1) for before in fields(old)]
    is_held = isinstance(bumped(*case), FeeCapped)
    assert is_held == (max(least) > ceiling or market.floor_wei > ceiling)


@given(replacements(), WEI)
def test_a_dearer_market_or_fee_never_makes_a_bump_cheaper(case: tuple[Fee, Market, int, int, int], more: int) -> None:
    """Goal: the policy is monotone in the market and in the old fee. Method: raise one of them; no field may fall, and
    what was capped stays so."""
    old, market, basis_points, ceiling, transaction_type = case
    first = bumped(*case)
    dearer = [
        bumped(old, evolve(market, tip_wei=market.tip_wei + more), basis_points, ceiling, transaction_type),
        bumped(evolve(old, max_fee_per_gas_wei=old.max_fee_per_gas_wei + more), market, *case[2:]),
    ]
    if market.base_fee_wei is not None:
        rising = evolve(market, base_fee_wei=market.base_fee_wei + more)
        dearer.append(bumped(old, rising, basis_points, ceiling, transaction_type))
    for second in dearer:
        if isinstance(first, FeeCapped):
            assert isinstance(second, FeeCapped)
        elif isinstance(second, Fee):
            assert all(after >= before for before, after in zip(fields(first), fields(second), strict=True))


@given(replacements())
def test_bumps_end_at_the_ceiling_for_good(case: tuple[Fee, Market, int, int, int]) -> None:
    """Goal: bumping terminates: each step is a real rise until the ceiling leaves no room, and then never again, while
    the market holds still. Method: bump until capped; a tenth each time bounds the steps."""
    fee, market, basis_points, ceiling, transaction_type = case
    for _ in range(400):
        new = bumped(fee, market, basis_points, ceiling, transaction_type)
        if isinstance(new, FeeCapped):
            break
        fee = new
    else:
        pytest.fail("no end of bumps")
    assert isinstance(bumped(fee, market, basis_points, ceiling, transaction_type), FeeCapped)
    if market.floor_wei <= ceiling:
        nodes_ask = 100 * PERCENT_OF_NODES[transaction_type]
        assert max(fields(fee)) * (BASIS_POINTS + max(basis_points, nodes_ask)) > ceiling * BASIS_POINTS


def test_at_the_ceiling_the_tip_stays_the_markets() -> None:
    """Goal: a tip of 1 wei is not mined for hours after the base fee fell (ChainBridge#704). Method: base fee just
    below the ceiling, for a first fee and for a bump."""
    market = Market(95, 20, 1)
    assert fee_for_market(market, 100) == Fee(100, 20)
    assert bumped(Fee(80, 3), market, 1_250, 100, DYNAMIC) == Fee(100, 20)


def test_a_bump_may_reach_the_very_ceiling() -> None:
    """Goal: the ceiling itself is allowed, one wei below is not enough. Method: a rise that ends exactly there, of the
    max fee and of a blob fee."""
    assert bumped(Fee(80, 8), CHEAP, 1_250, 90, DYNAMIC) == Fee(90, 9)
    assert isinstance(bumped(Fee(80, 8), CHEAP, 1_250, 89, DYNAMIC), FeeCapped)
    assert bumped(Fee(10, 1, 45), CHEAP, 1_250, 90, BLOB) == Fee(20, 2, 90)
    assert isinstance(bumped(Fee(10, 1, 45), CHEAP, 1_250, 89, BLOB), FeeCapped)


def test_one_wei_rises_too() -> None:
    """Goal: rounding up never leaves a field where it was. Method: fields so small that a tenth is nothing."""
    assert bumped(Fee(2, 0), Market(0, 0, 1), 1_000, 100, DYNAMIC) == Fee(6, 1)
    assert bumped(Fee(9, 1), Market(0, 0, 1), 0, 100, DYNAMIC) == Fee(10, 2)
    assert bumped(Fee(9, 9), Market(None, 1, 1), 0, 100, LEGACY) == Fee(10, 10)


def history(*blocks: tuple[int, int], used: str = "0.5", base: int = 7) -> FeeHistory:
    """A history of (base fee, tip) blocks, each half full."""
    return FeeHistory(
        oldest_block=1,
        base_fee_per_gas_wei=(*(one[0] for one in blocks), base),
        gas_used_ratio=tuple(Decimal(used) for _ in blocks),
        reward_wei=tuple((one[1],) for one in blocks),
    )


@given(st.lists(st.integers(1, 10**10), min_size=3, max_size=10), st.integers(10**10, 10**20))
def test_one_absurd_block_sets_no_tip(tips: list[int], absurd: int) -> None:
    """Goal: one lying or spendthrift block moves the tip by one rank at most. Method: add it to any history."""
    plain = tip_from(history(*((7, tip) for tip in tips)))
    with_it = tip_from(history(*((7, tip) for tip in tips), (7, absurd)))
    assert plain is not None
    assert with_it is not None
    assert with_it <= sorted(tips)[len(tips) // 2]
    assert plain <= with_it


def test_empty_blocks_are_no_samples() -> None:
    """Goal: a quiet chain's zero rewards do not mean that a tip of zero is taken. Method: histories that are empty
    wholly, in part, or but for one spendthrift, with the node's suggestion and without."""
    assert tip_from(history()) is None
    assert tip_from(history((7, 0), (7, 0))) is None
    assert tip_from(history((7, 0), (7, 0)), 5) == 5
    assert tip_from(history((7, 0), (7, 0)), 0) == 0
    assert tip_from(history((7, 0), (7, 40), (7, 0))) == 40
    assert tip_from(history((7, 0), (7, 10**12), (7, 0)), 5) == 5
    assert tip_from(history((7, 3), (7, 4), (7, 5)), 0) == 4


def test_a_vanished_base_fee_is_refused() -> None:
    """Goal: a history that cannot be true sets no price. Method: a base fee of 0 in a block that used gas, after one
    with a base fee; an empty such block, and a chain that began at 0, are believed."""
    with pytest.raises(MarketAbsurd):
        tip_from(history((7, 1), (0, 1)))
    assert tip_from(history((7, 1), (0, 1), used="0")) == 1
    assert tip_from(history((0, 1), (1, 1))) == 1


@given(st.integers(0, 10**20), st.lists(st.integers(0, 10**10), max_size=10))
def test_a_tip_never_jumps_a_thousandfold(tip: int, usual: list[int]) -> None:
    """Goal: what a node invents costs a bounded multiple of what was usual. Method: any tip after any tips."""
    bounded = bounded_tip(tip, usual)
    assert bounded <= tip
    assert bounded == tip or (usual and bounded <= TIP_JUMP_MAX * max(*usual, 1))


def test_free_tips_leave_room_for_others() -> None:
    """Goal: a chain whose tips were 0 is not held at 0. Method: the bound after tips of nothing."""
    assert bounded_tip(10**9, [0, 0, 0]) == TIP_JUMP_MAX


def test_a_real_rise_passes_in_a_few_blocks() -> None:
    """Goal: the bound delays, it does not starve. Method: the market jumps a millionfold; feed the bound its own
    answers until it lets the tip through."""
    seen = [1] * 10
    while (tip := bounded_tip(10**6, seen[-10:])) < 10**6:
        seen.append(tip)
        assert len(seen) < 20
    assert len(seen) - 10 <= 6


@given(st.integers(21_000, 2**26), st.integers(21_000, 2**24))
def test_gas_is_buffered_up_and_never_below_the_estimate(estimate: int, limit: int) -> None:
    """Goal: the buffer rounds up and stops at the cap, but never takes from the estimate. Method: any estimate."""
    gas = buffered_gas(estimate, limit)
    assert gas >= estimate
    assert gas == max(estimate, min(limit, -(-estimate * (BASIS_POINTS + GAS_BUFFER_BASIS_POINTS) // BASIS_POINTS)))


@given(st.integers(-1, 2**70), st.one_of(st.integers(-1, 30_000), st.integers(0, 2**52)))
def test_an_absurd_estimate_is_refused_and_a_sound_one_fits(estimate: int, block_limit: int) -> None:
    """Goal: an estimate of nothing, or of more than a block, signs nothing; a sound one fits the block, and the
    transaction cap where it can. Method: any estimate and block limit."""
    cap = 2**24
    if not INTRINSIC_GAS <= estimate <= block_limit:
        with pytest.raises(EstimateAbsurd):
            gas_limit_for(estimate, block_gas_limit=block_limit, gas_limit_max=cap)
        return
    gas = gas_limit_for(estimate, block_gas_limit=block_limit, gas_limit_max=cap)
    assert estimate <= gas <= block_limit
    assert gas <= max(cap, estimate)


@pytest.mark.parametrize("block_limit", [0, -5])
def test_a_block_without_gas_is_refused(block_limit: int) -> None:
    """Goal: a block gas limit of 0 caps no transaction to nothing (hyperlane#8152). Method: such limits."""
    with pytest.raises(EstimateAbsurd, match="block's gas limit"):
        gas_limit_for(21_000, block_gas_limit=block_limit, gas_limit_max=2**24)


@given(st.lists(st.integers(21_000, 2**24), max_size=8), CEILINGS, st.integers(21_000, 10**6), st.integers(0, 10**15))
def test_the_reserve_ends_every_nonce_in_flight(gas: list[int], ceiling: int, filler: int, data_fee: int) -> None:
    """Goal: out of the reserve alone, all in flight can be bumped to the ceiling, or all be cancelled, with the next
    nonce filled. Method: the cost of either, for any lane."""
    kept = reserve_wei(
        fee_wei_max=ceiling, filler_gas=filler, in_flight=len(gas), gas_in_flight=sum(gas), data_fee_wei=data_fee
    )
    next_filler = cost_wei(0, filler, ceiling, data_fee)
    assert kept >= sum(cost_wei(0, limit, ceiling, data_fee) for limit in gas) + next_filler
    assert kept >= (len(gas) + 1) * next_filler
