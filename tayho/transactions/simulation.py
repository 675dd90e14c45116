"""Would the call succeed now, and at what gas: asked at one block, before anything is signed (TX-11)."""

from __future__ import annotations

from rpc import methods
from rpc.errors import Reverted
from rpc.reads import Call as Question
from rpc.reads import Reads
from tayho.kernel.address import Address
from tayho.kinds import Call
from tayho.transactions.constants import GAS_LIMIT_MAX
from tayho.transactions.fee_market import FeeMarket
from tayho.transactions.fees import fee_for_market, gas_limit_for
from tayho.transactions.types import Simulated, WouldRevert


async def simulate(
    reads: Reads, fee_market: FeeMarket, sender: Address, call: Call, fee_wei_max: int
) -> Simulated | WouldRevert:
    """Run the call at the present head. A node's failure is raised as it is: it is no proof of a revert.

    The gas is the node's own estimate, for a filler too: no constant covers what an Arbitrum chain adds for its data.
    Raises RpcError, MarketAboveCeiling, MarketAbsurd, EstimateAbsurd.
    """
    header = await reads.ask(methods.block_by_number("latest"))
    if header is None:
        raise TypeError("there is always a latest block")
    request = methods.CallRequest(sender.value, call.to.value, call.data, call.value_wei)
    asked: list[Question[object]] = [
        methods.call(request, header.number),
        methods.estimate_gas(request, header.number),
    ]
    returned, gas = await reads.ask_many(asked)
    for answer in (returned, gas):
        if isinstance(answer, Reverted):
            return WouldRevert(answer.reason or answer.message, header.number)
    if isinstance(returned, Exception):
        raise returned
    market = await fee_market.at(header)
    return Simulated(
        gas_limit_for(_number(gas), block_gas_limit=header.gas_limit, gas_limit_max=GAS_LIMIT_MAX),
        fee_for_market(market, fee_wei_max),
        market.transaction_type,
    )


def _number(answer: object) -> int:
    if isinstance(answer, Exception):
        raise answer
    if not isinstance(answer, int):
        raise TypeError(f"expected a quantity, found {type(answer).__name__}")
    return answer
