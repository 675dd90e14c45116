"""One question tells whether a call succeeds, and at what gas; a second is asked only where the first tells neither."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from rpc.errors import EndpointFault, NoQuorum, Reverted, RpcError, RpcRefused, Transport
from rpc.methods import Call as Question
from tayho.kinds import Call
from tayho.transactions.fee_market import FeeMarket
from tayho.transactions.simulation import simulate
from tayho.transactions.types import Simulated, WouldRevert
from tests.rpc import examples
from tests.rpc.voting import Voter
from tests.transactions.conftest import FEE_WEI_MAX, SIGNERS

REVERT = Reverted(3, "execution reverted", data=b"\x12\x34\x56\x78")
UNEXPECTED = {
    "refused": RpcRefused(-32000, "cannot estimate gas"),
    "no majority": NoQuorum("eth_estimateGas", 2, ("a", "b", "c"), ()),
}
SERVED = {
    "eth_getBlockByNumber": examples.block(),
    "eth_maxPriorityFeePerGas": "0x1",
    "eth_feeHistory": RpcRefused(-32601, "no such method"),
}


async def simulated(answers: Mapping[str, object]) -> tuple[Simulated | WouldRevert | RpcError, list[str]]:
    """What a node's answers amount to, and what it was asked of the call."""
    asked: list[str] = []

    def answer(call: Question[Any]) -> object:
        asked.append(call.method)
        return {**SERVED, **answers}[call.method]

    node = Voter("node", answer)
    try:
        found: Simulated | WouldRevert | RpcError = await simulate(
            node, FeeMarket(node), SIGNERS[0], Call(SIGNERS[1], b""), FEE_WEI_MAX
        )
    except RpcError as error:
        found = error
    return found, [method for method in asked if method in ("eth_estimateGas", "eth_call")]


async def test_an_estimate_says_that_the_call_succeeds() -> None:
    """Goal: one question for both. Method: a node that estimates."""
    found, asked = await simulated({"eth_estimateGas": hex(30_000)})
    assert isinstance(found, Simulated)
    assert asked == ["eth_estimateGas"]


async def test_an_estimate_that_reverts_is_the_calls_revert() -> None:
    """Goal: the revert is told with its data, and nothing more is asked. Method: a node that runs and reverts."""
    found, asked = await simulated({"eth_estimateGas": REVERT})
    assert isinstance(found, WouldRevert)
    assert found.data == REVERT.data
    assert asked == ["eth_estimateGas"]


@pytest.mark.parametrize("unexpected", UNEXPECTED.values(), ids=UNEXPECTED.keys())
async def test_where_there_is_no_estimate_the_call_tells_whether_it_reverts(unexpected: RpcError) -> None:
    """Goal: no revert goes unseen because nodes word it as they like, or because a majority agrees on it alone.
    Method: no estimate, and a call that reverts; and one that does not, which proves nothing."""
    found, asked = await simulated({"eth_estimateGas": unexpected, "eth_call": REVERT})
    assert isinstance(found, WouldRevert)
    assert asked == ["eth_estimateGas", "eth_call"]
    found, _ = await simulated({"eth_estimateGas": unexpected, "eth_call": "0x"})
    assert found is unexpected


async def test_an_outage_is_no_revert() -> None:
    """Goal: what was not answered is asked again later, not concluded from. Method: a node that breaks off."""
    away = EndpointFault("node", Transport("the connection broke"), "eth_estimateGas")
    found, asked = await simulated({"eth_estimateGas": away})
    assert found is away
    assert asked == ["eth_estimateGas"]
