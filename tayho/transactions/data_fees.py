"""What a transaction takes from its signer beside its gas, and what a filler takes: where a chain posts to another.

An OP-stack chain charges for the transaction's bytes apart from its gas, and no fee field bounds that: a sender who has
only gas times max fee is refused, or accepted and dropped. An Arbitrum chain counts the same in gas, so its estimates
hold it already, and a plain transfer needs far more than 21,000: every filler's gas is estimated.
"""

from __future__ import annotations

from eth_utils.crypto import keccak

from rpc import methods
from rpc.errors import Reverted, RpcError
from rpc.truth import ChainTruth
from rpc.values import Header
from tayho.kernel.address import Address
from tayho.transactions.constants import GAS_LIMIT_MAX
from tayho.transactions.errors import MarketAbsurd
from tayho.transactions.fees import gas_limit_for, raised
from tayho.transactions.types import LaneNeeds

# The OP-stack's GasPriceOracle, at the same address on each of its chains (specs: predeploys).
GAS_PRICE_ORACLE = Address.parse("0x420000000000000000000000000000000000000F")
# The data fee follows the other chain's base fee until the transaction is in a block: room for it to double.
DATA_FEE_HEADROOM_BASIS_POINTS = 10_000
# Type, chain id, nonce, fees, gas, destination, value, lengths and signature: all that a signed transaction has beside
# its data, rounded up.
BYTES_BESIDE_DATA = 256

_WORD_BYTES = 32


def _selector(signature: str) -> bytes:
    return bytes(keccak(signature.encode())[:4])


_UPPER_BOUND = _selector("getL1FeeUpperBound(uint256)")  # since Fjord; before, it reverts
_OF_BYTES = _selector("getL1Fee(bytes)")
_OPERATOR_FEE = _selector("getOperatorFee(uint256)")  # since Isthmus; before, it reverts


class DataFees:
    """What one chain charges for data, by a majority's word. Whether it is an OP-stack chain is asked once."""

    def __init__(self, truth: ChainTruth) -> None:
        self._truth = truth
        self._has_oracle: bool | None = None

    async def data_fee_wei(self, data_bytes: int, gas_limit: int, head: Header) -> int:
        """The most that a transaction with so many bytes of call data and this gas limit is charged beside its gas.

        0 where the chain has no such fee. Twice what the oracle tells, since it may rise before the transaction is
        mined. Raises RpcError, MarketAbsurd for an answer that is no number.
        """
        if self._has_oracle is None:
            (code,) = await self._truth.agreed([methods.code(GAS_PRICE_ORACLE.value, head.number)])
            if isinstance(code, RpcError):
                raise code
            self._has_oracle = bool(code)
        if not self._has_oracle:
            return 0
        size = data_bytes + BYTES_BESIDE_DATA
        of_data, of_operator = await self._truth.agreed(
            [
                methods.call(_to_oracle(_UPPER_BOUND + _word(size)), head.number),
                methods.call(_to_oracle(_OPERATOR_FEE + _word(gas_limit)), head.number),
            ]
        )
        if isinstance(of_data, Reverted):
            # An oracle from before Fjord prices bytes, and those that are not zero the highest.
            of_bytes = methods.call(_to_oracle(_OF_BYTES + _bytes(b"\xff" * size)), head.number)
            (of_data,) = await self._truth.agreed([of_bytes])
        operator_fee_wei = 0 if isinstance(of_operator, Reverted) else _number(of_operator)
        return raised(_number(of_data) + operator_fee_wei, DATA_FEE_HEADROOM_BASIS_POINTS)

    async def needs(self, signer: Address, data_bytes: int, head: Header) -> LaneNeeds:
        """The gas of a transfer of nothing to oneself, and the data fee of a transaction with so many bytes of data.

        Raises RpcError, EstimateAbsurd, MarketAbsurd.
        """
        request = methods.CallRequest(signer.value, signer.value)
        (estimate,) = await self._truth.reached([methods.estimate_gas(request, head.number)])
        if isinstance(estimate, RpcError):
            raise estimate
        gas_limit = gas_limit_for(estimate, block_gas_limit=head.gas_limit, gas_limit_max=GAS_LIMIT_MAX)
        return LaneNeeds(gas_limit, await self.data_fee_wei(data_bytes, gas_limit, head))


def _to_oracle(data: bytes) -> methods.CallRequest:
    return methods.CallRequest(bytes(20), GAS_PRICE_ORACLE.value, data)


def _word(number: int) -> bytes:
    return number.to_bytes(_WORD_BYTES, "big")


def _bytes(content: bytes) -> bytes:
    """One argument of type bytes: where it begins, its length, and itself padded to whole words."""
    return _word(_WORD_BYTES) + _word(len(content)) + content + bytes(-len(content) % _WORD_BYTES)


def _number(answer: bytes | RpcError) -> int:
    if isinstance(answer, RpcError):
        raise answer
    if len(answer) != _WORD_BYTES:
        raise MarketAbsurd("the gas price oracle's answer is no number")
    return int.from_bytes(answer, "big")
