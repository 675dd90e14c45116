"""What the market is taken to be: one question a block, whatever the endpoint serves, says or invents (TX-8)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing
from structlog.testing import capture_logs

from rpc import methods
from rpc.endpoint import Endpoint
from rpc.errors import EndpointFault, RpcRefused
from rpc.methods import Call
from rpc.values import Header
from tayho.local.anvil import Chain, anvil
from tayho.local.process import running
from tayho.transactions.errors import MarketAbsurd
from tayho.transactions.fee_market import LAG_BLOCKS_MAX, FeeMarket
from tayho.transactions.fees import TIP_JUMP_MAX, fee_for_market
from tayho.transactions.types import DYNAMIC, LEGACY, Fee, Market
from tests.rpc import examples
from tests.rpc.voting import Voter, away, header_of, saying
from tests.services import hardhat

GWEI = 10**9
NOT_SERVED = RpcRefused(-32601, "the method does not exist")


def head_at(number: int, base_fee_wei: int | None = 7) -> Header:
    block = examples.block(number=hex(number))
    if base_fee_wei is None:
        return header_of(examples.without(block, "baseFeePerGas"))
    return header_of(block | {"baseFeePerGas": hex(base_fee_wei)})


def history_of(tips_wei: list[int], newest: int = 16, base_fee_wei: int = 7) -> dict[str, Any]:
    return examples.fee_history(
        oldestBlock=hex(newest - len(tips_wei) + 1),
        baseFeePerGas=[hex(base_fee_wei)] * (len(tips_wei) + 1),
        gasUsedRatio=[1] * len(tips_wei),
        reward=[[hex(tip)] for tip in tips_wei],
    )


def telling(answers: Mapping[str, object]) -> Callable[[Call[Any]], object]:
    """An endpoint that serves these methods and no others."""
    return lambda call: answers.get(call.method, NOT_SERVED)


def usual(newest: int = 16, tip_wei: int = GWEI) -> dict[str, object]:
    return {
        "eth_feeHistory": history_of([tip_wei] * 10, newest),
        "eth_maxPriorityFeePerGas": hex(tip_wei),
        "eth_gasPrice": hex(tip_wei + 7),
    }


async def asked_at_once(market: FeeMarket, head: Header, jobs: int) -> list[Market | Exception]:
    found: list[Market | Exception] = []

    async def ask() -> None:
        try:
            found.append(await market.at(head))
        except (EndpointFault, MarketAbsurd) as error:
            found.append(error)

    async with trio.open_nursery() as asking:
        for _ in range(jobs):
            asking.start_soon(ask)
    return found


async def test_all_jobs_of_a_block_share_one_question() -> None:
    """Goal: the market costs one request a block, whatever the load. Method: fifty jobs at once, fifty more after, a
    few that lag a little, then the next block."""
    node = Voter("node", telling(usual()), seconds=0.01)
    market = FeeMarket(node)
    assert await asked_at_once(market, head_at(16), 50) == [Market(7, GWEI, 16)] * 50
    assert await asked_at_once(market, head_at(16), 50) == [Market(7, GWEI, 16)] * 50
    assert await market.at(head_at(16 - LAG_BLOCKS_MAX, 9)) == Market(9, GWEI, 16 - LAG_BLOCKS_MAX)
    assert (node.batches, node.asked) == (1, ["eth_feeHistory", "eth_maxPriorityFeePerGas"])
    node.answer = telling(usual(17, 2 * GWEI))
    assert await market.at(head_at(17, 8)) == Market(8, 2 * GWEI, 17)
    assert node.batches == 2


async def test_a_chain_that_was_reset_is_asked_anew() -> None:
    """Goal: what was known of higher blocks does not stick to a chain that begins again. Method: a far lower head."""
    node = Voter("node", telling(usual(1_000)))
    market = FeeMarket(node)
    await market.at(head_at(1_000))
    node.answer = telling(usual(3, 5) | {"eth_feeHistory": history_of([5] * 4, 3)})
    assert await market.at(head_at(3)) == Market(7, 5, 3)


async def test_whoever_asks_first_may_be_cancelled() -> None:
    """Goal: one job's end takes no other's answer. Method: cancel the asking job while another waits for it."""
    node = Voter("node", telling(usual()), seconds=0.05)
    market = FeeMarket(node)
    async with trio.open_nursery() as asking:
        first = trio.CancelScope()

        async def ask_and_be_cancelled() -> None:
            with first:
                await market.at(head_at(16))

        asking.start_soon(ask_and_be_cancelled)
        await trio.testing.wait_all_tasks_blocked()
        asking.start_soon(market.at, head_at(16))
        await trio.testing.wait_all_tasks_blocked()
        first.cancel()
    assert node.batches == 2
    assert await market.at(head_at(16)) == Market(7, GWEI, 16)
    assert node.batches == 2


async def test_a_failure_is_shared_and_not_kept() -> None:
    """Goal: a dead endpoint is asked once for all who wait, not once each; and once more when it is back. Method: ten
    jobs at once, then one."""
    node = Voter("node", saying(away()), seconds=0.01)
    market = FeeMarket(node)
    found = await asked_at_once(market, head_at(16), 10)
    assert all(isinstance(one, EndpointFault) for one in found)
    assert node.batches == 1
    node.answer = telling(usual())
    assert await market.at(head_at(16)) == Market(7, GWEI, 16)


@pytest.mark.parametrize(
    ("answers", "tip_wei"),
    [
        ({"eth_feeHistory": history_of([3, 4, 5])}, 4),
        ({"eth_maxPriorityFeePerGas": "0x5"}, 5),
        ({"eth_gasPrice": hex(7 + 6)}, 6),
        ({"eth_gasPrice": "0x3"}, 0),
        ({"eth_feeHistory": history_of([0, 0, 0]), "eth_maxPriorityFeePerGas": "0x5"}, 5),
        ({"eth_feeHistory": history_of([0, 0, 0]), "eth_gasPrice": hex(7 + 6)}, 6),
        ({"eth_feeHistory": history_of([1, 2, 3], base_fee_wei=8), "eth_maxPriorityFeePerGas": "0x5"}, 5),
        ({"eth_feeHistory": history_of([1, 2, 3], newest=15), "eth_maxPriorityFeePerGas": "0x5"}, 5),
    ],
    ids=["history", "suggestion", "gas price", "low price", "empty", "empty and no suggestion", "other base", "old"],
)
async def test_a_tip_is_found_from_what_is_served(answers: Mapping[str, object], tip_wei: int) -> None:
    """Goal: no method is required of a node, and a history of another chain sets no tip. Method: each alone."""
    assert await FeeMarket(Voter("node", telling(answers))).at(head_at(16)) == Market(7, tip_wei, 16)


async def test_a_history_that_contradicts_the_header_alone_is_absurd() -> None:
    """Goal: nothing is offered on the word of a node that tells another base fee than the quorum. Method: that answer
    with nothing beside it, for one and for several at once."""
    node = Voter("node", telling({"eth_feeHistory": history_of([1], base_fee_wei=8)}), seconds=0.01)
    found = await asked_at_once(FeeMarket(node), head_at(16), 3)
    assert all(isinstance(one, MarketAbsurd) for one in found)


async def test_an_invented_tip_is_bounded_by_the_usual_ones() -> None:
    """Goal: a lying endpoint cannot have us pay the ceiling. Method: usual tips for three blocks, then a fortune."""
    node = Voter("node", telling(usual(16, 1_000)))
    market = FeeMarket(node)
    for number in (16, 17, 18):
        node.answer = telling(usual(number, 1_000))
        await market.at(head_at(number))
    node.answer = telling(usual(19, 10**18))
    with capture_logs() as lines:
        assert await market.at(head_at(19)) == Market(7, 1_000 * TIP_JUMP_MAX, 19)
    assert [line["event"] for line in lines] == ["tip_bounded"]


async def test_lies_are_remembered_only_as_far_as_they_were_believed() -> None:
    """Goal: a liar that goes on lying gains a bounded factor each time, never all at once. Method: one usual tip, then
    the same fortune block after block."""
    market = FeeMarket(Voter("node", telling(usual(16, 1_000))))
    await market.at(head_at(16))
    taken: list[int] = []
    for number in range(17, 20):
        market._reads = Voter("node", telling(usual(number, 10**18)))  # pyright: ignore[reportPrivateUsage]
        taken.append((await market.at(head_at(number))).tip_wei)
    assert taken == [10**6, 10**6, 10**9]


async def test_without_a_base_fee_the_gas_price_is_asked() -> None:
    """Goal: a chain before EIP-1559 is served with legacy fees (TX-8). Method: a header without a base fee."""
    node = Voter("node", telling(usual()))
    market = await FeeMarket(node).at(head_at(16, None))
    assert market == Market(None, GWEI + 7, 16)
    assert market.transaction_type == LEGACY
    assert fee_for_market(market, 10 * GWEI) == Fee(GWEI + 7, GWEI + 7)
    assert node.asked == ["eth_gasPrice"]


@pytest.mark.parametrize("kind", ["anvil", "anvil before london", "hardhat"])
async def test_real_nodes_tell_a_market(kind: str, tmp_path: Path) -> None:
    """Goal: what nodes really serve is enough. Method: the market of each at its genesis."""
    chain = Chain(hardfork="berlin" if kind == "anvil before london" else None)
    served = running(hardhat.prepare(tmp_path)) if kind == "hardhat" else anvil(tmp_path, chain)
    async with served as node, Endpoint.open(node.service.url, chain_id=31337) as endpoint:
        head = await endpoint.ask(methods.block_by_number("latest"))
        assert head is not None
        market = await FeeMarket(endpoint).at(head)
        assert market.base_fee_wei == head.base_fee_per_gas_wei
        assert market.transaction_type == (LEGACY if kind == "anvil before london" else DYNAMIC)
        assert GWEI <= market.tip_wei <= 2 * GWEI
