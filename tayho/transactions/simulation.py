"""Would the call succeed now, and at what gas: asked at one block, before anything is signed (TX-11)."""

from __future__ import annotations

from rpc import methods
from rpc.errors import Reverted
from rpc.reads import Call as Question
from rpc.reads import Reads
from rpc.values import Header
from tayho.kernel.address import Address
from tayho.kinds import Call
from tayho.transactions.errors import MarketAbsurd
from tayho.transactions.fees import Market, fee_for_market, gas_limit_for
from tayho.transactions.types import Fee, Simulated, WouldRevert

GAS_LIMIT_MAX = 2**24  # EIP-7825


async def simulate(
    reads: Reads, chain_id: int, sender: Address, call: Call, fee_wei_max: int
) -> Simulated | WouldRevert:
    """Run the call at the present head. A node's failure is raised as it is: it is no proof of a revert.

    Raises RpcError, MarketAboveCeiling, MarketAbsurd.
    """
    header = await reads.ask(methods.block_by_number("latest"))
    if header is None or header.base_fee_per_gas_wei is None:
        raise MarketAbsurd(f"chain {chain_id} tells no base fee")
    request = methods.CallRequest(sender.value, call.to.value, call.data, call.value_wei)
    asked: list[Question[object]] = [
        methods.call(request, header.number),
        methods.estimate_gas(request, header.number),
        methods.max_priority_fee_per_gas(),
    ]
    returned, gas, tip = await reads.ask_many(asked)
    for answer in (returned, gas):
        if isinstance(answer, Reverted):
            return WouldRevert(answer.reason or answer.message, header.number)
    return Simulated(
        gas_limit_for(_number(gas), block_gas_limit=header.gas_limit, gas_limit_max=GAS_LIMIT_MAX),
        _fee(header, _number(tip), fee_wei_max, returned),
    )


def _number(answer: object) -> int:
    if isinstance(answer, Exception):
        raise answer
    if not isinstance(answer, int):
        raise TypeError(f"expected a quantity, found {type(answer).__name__}")
    return answer


def _fee(header: Header, tip_wei: int, fee_wei_max: int, returned: object) -> Fee:
    if isinstance(returned, Exception):
        raise returned
    return fee_for_market(Market(header.base_fee_per_gas_wei, tip_wei, header.number), fee_wei_max)
