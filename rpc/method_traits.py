"""What must be known of a method before it is asked of one of several endpoints. Pure; one row a method.

A method that has no row is light, is asked again elsewhere when it fails, and is neither raced nor shared.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal, TypeAlias, cast

from attrs import frozen

from rpc.reads import Call

MethodClass: TypeAlias = Literal["light", "state", "heavy"]
"""Methods that fail together: a node without state answers heads, one that chokes on logs answers both (RPC-4)."""

METHOD_CLASSES: tuple[MethodClass, ...] = ("light", "state", "heavy")

_HEIGHT = re.compile(r"0x(?:0|[1-9a-f][0-9a-f]*)")


@frozen
class Traits:
    """One method.

    `null_may_be_early`: null may mean that this endpoint does not have it *yet*, so it wins no race.
    `may_hedge`: a second endpoint may be asked while the first still works. Not where null is the ordinary answer of a
    poll, which hedging would only double, and not where the answer lives on the endpoint that was asked first.
    `block_at`: which parameter names the block, for methods whose answer depends on one.
    """

    work: MethodClass = "light"
    null_may_be_early: bool = False
    may_hedge: bool = True
    block_at: int | None = None


_UNKNOWN = Traits(may_hedge=False)
_POLLED = Traits(null_may_be_early=True, may_hedge=False)
_STATEFUL = Traits(may_hedge=False)

_TRAITS: Mapping[str, Traits] = {
    "eth_blockNumber": Traits(),
    "eth_chainId": Traits(),
    "eth_feeHistory": Traits(),
    "eth_gasPrice": Traits(),
    "eth_maxPriorityFeePerGas": Traits(),
    "web3_clientVersion": Traits(),
    "eth_getBlockByHash": Traits(null_may_be_early=True, block_at=0),
    "eth_getBlockByNumber": Traits(null_may_be_early=True, block_at=0),
    "eth_getTransactionByHash": _POLLED,
    "eth_getTransactionReceipt": _POLLED,
    "eth_call": Traits("state", block_at=1),
    "eth_estimateGas": Traits("state", block_at=1),
    "eth_getBalance": Traits("state", block_at=1),
    "eth_getCode": Traits("state", block_at=1),
    "eth_getStorageAt": Traits("state", block_at=2),
    "eth_getTransactionCount": Traits("state", block_at=1),
    "eth_getBlockReceipts": Traits("heavy", null_may_be_early=True, block_at=0),
    "eth_getLogs": Traits("heavy", block_at=0),
    "eth_getProof": Traits("heavy", block_at=2),
    "eth_newFilter": _STATEFUL,
    "eth_newBlockFilter": _STATEFUL,
    "eth_newPendingTransactionFilter": _STATEFUL,
    "eth_getFilterChanges": _STATEFUL,
    "eth_getFilterLogs": _STATEFUL,
    "eth_uninstallFilter": _STATEFUL,
}


def traits_of(method: str) -> Traits:
    """The traits of a method."""
    return _TRAITS.get(method, _UNKNOWN)


def is_early_null(call: Call[object], value: object) -> bool:
    """Whether this answer may only mean "not yet"."""
    return value is None and traits_of(call.method).null_may_be_early


def is_pinned(call: Call[object]) -> bool:
    """Whether the question names its block by height or hash, and not "the present one".

    Two who ask the same pinned question want the same answer whenever they ask. Whoever asks about the present wants
    what is true after he asked: he may just have sent the transaction that changes it.
    """
    place = traits_of(call.method).block_at
    if place is None or place >= len(call.params):
        return False
    block = call.params[place]
    if isinstance(block, str):
        return _HEIGHT.fullmatch(block) is not None
    return isinstance(block, dict) and _names_blocks(cast("Mapping[str, object]", block))


def _names_blocks(members: Mapping[str, object]) -> bool:
    """EIP-1898's object, or the filter of eth_getLogs."""
    if "blockHash" in members:
        return True
    ends = (members.get("fromBlock"), members.get("toBlock"))
    return all(isinstance(end, str) and _HEIGHT.fullmatch(end) for end in ends)
