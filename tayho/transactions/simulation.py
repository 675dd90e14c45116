"""Would the call succeed now, and at what gas: asked at one block, before anything is signed (TX-11)."""

from __future__ import annotations

from collections.abc import Sequence

import trio
from attrs import frozen

from rpc import methods
from rpc.errors import NoQuorum, Reverted, RpcRefused
from rpc.reads import Reads
from tayho.kernel.address import Address
from tayho.kinds import Call
from tayho.transactions.constants import GAS_LIMIT_MAX
from tayho.transactions.fee_market import FeeMarket
from tayho.transactions.fees import fee_for_market, gas_limit_for
from tayho.transactions.types import Simulated, WouldRevert

# So long what one simulation found may be signed: about as long as it may take to get a lane and one request more.
FRESH_SECONDS = 3


@frozen
class Foreseen:
    """What a simulation found for one signer, and when its block was asked for (on Trio's clock)."""

    signer: Address
    simulated: Simulated
    asked_at: float

    def holds_for(self, signer: Address, now: float) -> bool:
        """Whether this very simulation is one of the signer's, and of a recent block (TX-11)."""
        return self.signer == signer and now - self.asked_at <= FRESH_SECONDS


class Simulations:
    """Simulations of a pool's calls, each with the signer who would send it."""

    def __init__(self, reads: Reads, fee_market: FeeMarket, signers: Sequence[Address]) -> None:
        self._reads = reads
        self._fee_market = fee_market
        # In the order in which the cursor goes round the lanes, so that the turns of both can fall in step.
        self._signers = tuple(sorted(signers))
        self._turn = 0

    def keep_to(self, signers: Sequence[Address]) -> None:
        """Go on with these signers, in the order of the lanes: the pool may have others than before."""
        self._signers = tuple(signers)

    def by(self, reads: Reads) -> Simulations:
        """The same by other reads, at the same turn."""
        other = Simulations(reads, self._fee_market, self._signers)
        other._turn = self._turn
        return other

    async def with_any(self, call: Call, fee_wei_max: int) -> Foreseen | WouldRevert:
        """With the signers in turn, another first each time, until it succeeds for one.

        A call reverts for good only if it does so for every signer: one may lack a role that another has (TX-9).
        """
        first = self._turn % len(self._signers)
        self._turn = first + 1
        found: Foreseen | WouldRevert = await self.with_signer(self._signers[first], call, fee_wei_max)
        for signer in (*self._signers[first + 1 :], *self._signers[:first]):
            if isinstance(found, Foreseen):
                break
            found = await self.with_signer(signer, call, fee_wei_max)
        return found

    def fall_in_step(self, signer: Address) -> None:
        """The lane of another signer was given than the one simulated with: go on from there."""
        if signer in self._signers:
            self._turn = self._signers.index(signer) + 1

    async def with_signer(self, signer: Address, call: Call, fee_wei_max: int) -> Foreseen | WouldRevert:
        """Raises as `simulate`."""
        asked_at = trio.current_time()
        found = await simulate(self._reads, self._fee_market, signer, call, fee_wei_max)
        return found if isinstance(found, WouldRevert) else Foreseen(signer, found, asked_at)


async def simulate(
    reads: Reads, fee_market: FeeMarket, sender: Address, call: Call, fee_wei_max: int
) -> Simulated | WouldRevert:
    """Run the call at the present head. A node's failure is raised as it is: it is no proof of a revert.

    The gas is the node's own estimate, for a filler too: no constant covers what an Arbitrum chain adds for its data.
    Raises RpcError, MarketAboveCeiling, MarketAbsurd, EstimateAbsurd, GasBeyondCap.
    """
    header = await reads.ask(methods.block_by_number("latest"))
    if header is None:
        raise TypeError("there is always a latest block")
    request = methods.CallRequest(sender.value, call.to.value, call.data, call.value_wei)
    gas = await _gas_or_revert(reads, request, header.number)
    if isinstance(gas, WouldRevert):
        return gas
    market = await fee_market.at(header)
    return Simulated(
        gas_limit_for(
            gas,
            block_gas_limit=header.gas_limit,
            gas_limit_max=GAS_LIMIT_MAX,
            gas_limit_min=call.gas_limit_min,
        ),
        fee_for_market(market, fee_wei_max),
        market.transaction_type,
    )


async def _gas_or_revert(reads: Reads, request: methods.CallRequest, block_number: int) -> int | WouldRevert:
    """The node's estimate, which it has by running the call at that block. Where it gives none, the call itself tells
    whether it reverts: nodes refuse an estimate in many words, and a majority may agree on a revert alone.
    """
    try:
        return await reads.ask(methods.estimate_gas(request, block_number))
    except Reverted as error:
        return _reverted(error, block_number)
    except (RpcRefused, NoQuorum) as error:
        refused = error
    try:
        await reads.ask(methods.call(request, block_number))
    except Reverted as error:
        return _reverted(error, block_number)
    raise refused


def _reverted(error: Reverted, block_number: int) -> WouldRevert:
    return WouldRevert(error.reason or error.message, block_number, error.data or b"")
