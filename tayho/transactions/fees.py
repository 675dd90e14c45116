"""The fee of a new transaction, from the market and the ceiling: pure, in wei."""

from __future__ import annotations

from tayho.transactions.errors import MarketAboveCeiling
from tayho.transactions.types import Fee

# The base fee rises by at most 1/8 a block (EIP-1559): doubling it outlasts six full blocks.
BASE_FEE_HEADROOM = 2
GAS_BUFFER_BASIS_POINTS = 2_000
BASIS_POINTS = 10_000


def fee_for_market(base_fee_wei: int, tip_wei: int, fee_wei_max: int) -> Fee:
    """Headroom over the base fee plus the market's tip, never above the ceiling.

    Raises MarketAboveCeiling when even the present base fee is above the ceiling.
    """
    if base_fee_wei > fee_wei_max:
        raise MarketAboveCeiling(base_fee_wei, fee_wei_max)
    max_fee = min(BASE_FEE_HEADROOM * base_fee_wei + tip_wei, fee_wei_max)
    return Fee(max_fee, min(tip_wei, max_fee))


def buffered_gas(gas_estimate: int, gas_limit_max: int) -> int:
    """The estimate with a safety buffer, rounded up, within the protocol's cap of one transaction (EIP-7825)."""
    buffered = -(-gas_estimate * (BASIS_POINTS + GAS_BUFFER_BASIS_POINTS) // BASIS_POINTS)
    return max(gas_estimate, min(buffered, gas_limit_max))
