"""What is offered for gas: the first fee, each higher one, and what a lane keeps back. Pure; wei and integers only."""

from __future__ import annotations

from collections.abc import Sequence

from rpc.values import FeeHistory
from tayho.transactions.errors import EstimateAbsurd, GasBeyondCap, MarketAboveCeiling, MarketAbsurd
from tayho.transactions.types import DYNAMIC, LEGACY, Fee, FeeCapped, Market

BASIS_POINTS = 10_000
BASE_FEE_HEADROOM_BLOCKS = 6
# A full block raises the base fee by 1/8, and by 1 wei at least (EIP-1559).
BASE_FEE_RISE_DENOMINATOR = 8
GAS_BUFFER_BASIS_POINTS = 2_000
INTRINSIC_GAS = 21_000
# A tip beyond this many times what was usual is an error or a lie of the node that told it.
TIP_JUMP_MAX = 1_000

BLOB, SET_CODE = 3, 4
# By how much each fee field must rise before nodes take a replacement: geth's pools, and others after them.
NODES_ASK_BASIS_POINTS = {LEGACY: 1_000, DYNAMIC: 1_000, BLOB: 10_000, SET_CODE: 1_000}


def fee_for_market(market: Market, fee_wei_max: int) -> Fee:
    """Headroom over the base fee for six full blocks, plus the market's tip, never above the ceiling.

    Without a base fee both fields are the gas price. At the ceiling the tip stays the market's, as far as it fits.
    Raises MarketAboveCeiling when even the present base fee, or gas price, is above the ceiling.
    """
    if market.floor_wei > fee_wei_max:
        raise MarketAboveCeiling(market.floor_wei, fee_wei_max)
    if market.base_fee_wei is None:
        price_wei = max(market.tip_wei, 1)
        return Fee(price_wei, price_wei)
    headroom_wei = base_fee_after(market.base_fee_wei, BASE_FEE_HEADROOM_BLOCKS)
    max_fee_wei = min(max(headroom_wei + market.tip_wei, 1), fee_wei_max)
    return Fee(max_fee_wei, min(market.tip_wei, max_fee_wei))


def base_fee_after(base_fee_wei: int, blocks: int) -> int:
    """The most that the base fee can be after so many full blocks: times 9/8 each, rounded up at every block."""
    for _ in range(blocks):
        base_fee_wei += max(-(-base_fee_wei // BASE_FEE_RISE_DENOMINATOR), 1)
    return base_fee_wei


def bump(
    old: Fee, market: Market, *, bump_basis_points: int, fee_wei_max: int, transaction_type: int
) -> Fee | FeeCapped:
    """The fee of the transaction that replaces one with `old` at the same nonce (TX-7).

    Every field rises by `bump_basis_points`, and by what nodes ask of the type, rounded up, and to the market at
    least. `old` is the highest fee that was ever signed at the nonce. FeeCapped when the ceiling does not let every
    field rise that far, or when the market itself is above the ceiling: then a higher fee would not be mined either.
    """
    basis_points = max(bump_basis_points, NODES_ASK_BASIS_POINTS[transaction_type])
    lowest_wei = raised(old.max_fee_per_gas_wei, basis_points)
    if lowest_wei > fee_wei_max:
        return FeeCapped(f"the next max fee would be {lowest_wei} wei and TX_MAX_FEE_PER_GAS_WEI is {fee_wei_max}")
    if market.floor_wei > fee_wei_max:
        return FeeCapped(f"the chain asks {market.floor_wei} wei and TX_MAX_FEE_PER_GAS_WEI is {fee_wei_max}")
    blob_fee_wei = old.max_fee_per_blob_gas_wei
    if blob_fee_wei is not None:
        blob_fee_wei = raised(blob_fee_wei, basis_points)
        if blob_fee_wei > fee_wei_max:
            return FeeCapped(f"the next blob fee would be {blob_fee_wei} wei, above {fee_wei_max}")
    if transaction_type == LEGACY:
        # The whole price is paid, so it takes no headroom.
        price_wei = max(lowest_wei, min((market.base_fee_wei or 0) + market.tip_wei, fee_wei_max))
        return Fee(price_wei, price_wei)
    asked = fee_for_market(market, fee_wei_max)
    return Fee(
        max(lowest_wei, asked.max_fee_per_gas_wei),
        max(raised(old.max_priority_fee_per_gas_wei, basis_points), asked.max_priority_fee_per_gas_wei),
        blob_fee_wei,
    )


def raised(wei: int, basis_points: int) -> int:
    """The amount plus so many basis points of it, rounded up, and 1 wei more at least."""
    return max(-(-wei * (BASIS_POINTS + basis_points) // BASIS_POINTS), wei + 1)


def tip_from(history: FeeHistory, suggested_wei: int | None = None, *, base_fee_wei: int | None = None) -> int | None:
    """The usual tip of the history's blocks: the lower median of each block's first percentile asked.

    A block that paid no tip (empty, or only with the chain's own transactions) is no sample. The node's own suggestion
    counts as one more sample, so a single spendthrift among empty blocks sets no price. None without any sample.
    Raises MarketAbsurd where the history contradicts itself, or `base_fee_wei`, its newest block's as known elsewhere.
    """
    _require_plausible(history, base_fee_wei)
    samples = [row[0] for row in history.reward_wei if row[0] > 0]
    if suggested_wei is not None and (suggested_wei > 0 or not samples):
        samples.append(suggested_wei)
    return lower_median(samples) if samples else None


def bounded_tip(tip_wei: int, usual_wei: Sequence[int]) -> int:
    """The tip, no higher than TIP_JUMP_MAX times the median of the tips seen before it. A real rise of that size goes
    through all the same, a few blocks later; an invented one costs no more than that."""
    if not usual_wei:
        return tip_wei
    return min(tip_wei, TIP_JUMP_MAX * max(lower_median(usual_wei), 1))


def lower_median(samples: Sequence[int]) -> int:
    """The middle sample; of two middle ones the lower."""
    return sorted(samples)[(len(samples) - 1) // 2]


def _require_plausible(history: FeeHistory, newest_base_fee_wei: int | None) -> None:
    """Refuse a base fee that is another one, or that vanishes: below 8 wei it falls no more (EIP-1559)."""
    blocks = list(zip(history.base_fee_per_gas_wei, history.gas_used_ratio, strict=False))
    if blocks and newest_base_fee_wei not in (None, blocks[-1][0]):
        raise MarketAbsurd(f"the newest block's base fee is {newest_base_fee_wei}, in the history {blocks[-1][0]}")
    had_base_fee = False
    for base_fee_wei, used in blocks:
        if had_base_fee and base_fee_wei == 0 and used > 0:
            raise MarketAbsurd("a block that used gas is said to have base fee 0, after blocks with one")
        had_base_fee = had_base_fee or base_fee_wei > 0


def gas_limit_for(gas_estimate: int, *, block_gas_limit: int, gas_limit_max: int, gas_limit_min: int = 0) -> int:
    """The gas limit to sign: the estimate with its buffer, or without one `gas_limit_min` at least where that is
    given, within a transaction's and a block's caps.

    Raises EstimateAbsurd for an estimate that no transaction can have or no block can hold, GasBeyondCap for a
    minimum that is.
    """
    if block_gas_limit <= 0:
        raise EstimateAbsurd(f"the block's gas limit is said to be {block_gas_limit}")
    if not INTRINSIC_GAS <= gas_estimate <= block_gas_limit:
        raise EstimateAbsurd(f"the estimate is {gas_estimate}, expected {INTRINSIC_GAS} to {block_gas_limit}")
    cap = min(gas_limit_max, block_gas_limit)
    if gas_limit_min > cap:
        raise GasBeyondCap(gas_limit_min, cap)
    # Whoever says what a call must have has counted already: a buffer on top would pass their own bounds.
    return max(gas_estimate, gas_limit_min) if gas_limit_min else buffered_gas(gas_estimate, cap)


def buffered_gas(gas_estimate: int, gas_limit_max: int) -> int:
    """The estimate with a safety buffer, rounded up, within the protocol's cap of one transaction (EIP-7825)."""
    buffered = -(-gas_estimate * (BASIS_POINTS + GAS_BUFFER_BASIS_POINTS) // BASIS_POINTS)
    return max(gas_estimate, min(buffered, gas_limit_max))


def cost_wei(value_wei: int, gas_limit: int, max_fee_per_gas_wei: int, data_fee_wei: int = 0) -> int:
    """The most that a transaction can take from its signer. Nodes refuse it where the balance is less.

    `data_fee_wei` is what an OP-stack chain takes beside the gas (`data_fees`); 0 elsewhere.
    """
    return value_wei + gas_limit * max_fee_per_gas_wei + data_fee_wei


def reserve_wei(
    *, fee_wei_max: int, filler_gas: int, in_flight: int, gas_in_flight: int = 0, data_fee_wei: int = 0
) -> int:
    """What a lane keeps for its fillers, cancellations and bumps, and never spends on new work (TX-7).

    Every nonce in flight, and the next one, must be able to end at the ceiling: by its own call bumped that far
    (`gas_in_flight` is the sum of the gas limits in flight) or by a filler of `filler_gas`, whichever takes more.
    `data_fee_wei` is the data fee of one transaction.
    """
    gas = max(gas_in_flight, filler_gas * in_flight) + filler_gas
    return gas * fee_wei_max + (in_flight + 1) * data_fee_wei
