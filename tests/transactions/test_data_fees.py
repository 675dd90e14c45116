"""Fees beside the gas: OP-stack oracles of each age, chains without, and fillers that are estimated (TX-8)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve
from eth_utils.crypto import keccak
from structlog.testing import capture_logs

from rpc import methods
from rpc.endpoint import Endpoint
from rpc.errors import NoQuorum
from rpc.methods import Call
from rpc.reads import Call as Question
from rpc.values import Header
from tayho.local.anvil import Chain, anvil
from tayho.transactions.data_fees import BYTES_BESIDE_DATA, GAS_PRICE_ORACLE, DataFees
from tayho.transactions.errors import EstimateAbsurd, MarketAbsurd
from tayho.transactions.lane_rules import ROOM_DATA_BYTES, needed_wei, room_wei
from tayho.transactions.types import LaneFacts, LaneNeeds
from tayho.voters import truth_of
from tests.coordination.conftest import CHAIN_ID
from tests.rpc import examples
from tests.rpc.voting import Voter, away, header_of
from tests.services.chain import LocalChain, local_chain
from tests.transactions.conftest import FEE_WEI_MAX, SIGNERS, Engine
from tests.transactions.watching import lanes, look, told, watch_of

HEAD = header_of(examples.block())
UPPER_BOUND, OF_BYTES, OPERATOR = "getL1FeeUpperBound(uint256)", "getL1Fee(bytes)", "getOperatorFee(uint256)"
# Where each function's argument lies that is multiplied: the number itself, or the length of the bytes.
ARGUMENT_AT = {UPPER_BOUND: 4, OF_BYTES: 0x24, OPERATOR: 4}


def oracle(factors: Mapping[str, int]) -> bytes:
    """A contract by hand: each function answers its argument times its factor, and any other reverts."""
    entry_bytes, handler_bytes = 10, 16
    code = bytes.fromhex("60003560e01c")  # the selector
    first = len(code) + entry_bytes * len(factors) + 5
    for place, signature in enumerate(factors):
        selector = keccak(signature.encode())[:4]
        code += b"\x80\x63" + selector + b"\x14\x60" + bytes([first + handler_bytes * place]) + b"\x57"
    code += bytes.fromhex("60006000fd")
    for signature, factor in factors.items():
        argument = bytes([ARGUMENT_AT[signature]])
        # Load, multiply, store, return.
        code += b"\x5b\x60" + argument + b"\x35\x61" + factor.to_bytes(2, "big") + bytes.fromhex("0260005260206000f3")
    return code


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[Endpoint]:
    async with (
        anvil(tmp_path, Chain(chain_id=CHAIN_ID)) as running,
        Endpoint.open(running.service.url, chain_id=CHAIN_ID) as endpoint,
    ):
        yield endpoint


async def head_of(node: Endpoint) -> Header:
    head = await node.ask(methods.block_by_number("latest"))
    assert head is not None
    return head


async def place_oracle(node: Endpoint, code: bytes) -> None:
    params = (str(GAS_PRICE_ORACLE), f"0x{code.hex()}")
    await node.ask(Question("anvil_setCode", params, lambda _: None, is_write=True))


@pytest.mark.parametrize(
    ("factors", "expected_wei"),
    [
        ({UPPER_BOUND: 1_000}, 2 * 1_000 * (100 + BYTES_BESIDE_DATA)),
        ({OF_BYTES: 700}, 2 * 700 * (100 + BYTES_BESIDE_DATA)),
        ({UPPER_BOUND: 1_000, OF_BYTES: 700, OPERATOR: 3}, 2 * (1_000 * (100 + BYTES_BESIDE_DATA) + 3 * 50_000)),
    ],
    ids=["since Fjord", "before Fjord", "since Isthmus"],
)
async def test_an_op_stack_chain_charges_for_bytes(
    node: Endpoint, factors: Mapping[str, int], expected_wei: int
) -> None:
    """Goal: what the oracle charges is in the balance need, doubled, whatever the oracle's age. Method: a real node
    with a contract at the oracle's address that has the functions of that age and reverts on others."""
    await place_oracle(node, oracle(factors))
    assert await DataFees(truth_of([node])).data_fee_wei(100, 50_000, await head_of(node)) == expected_wei


async def test_a_chain_without_an_oracle_charges_nothing_and_is_asked_once(node: Endpoint) -> None:
    """Goal: on other chains the data fee is 0 and costs no request a block. Method: a plain node; and once it is known
    to have none, a contract that comes later is not asked."""
    fees = DataFees(truth_of([node]))
    assert await fees.data_fee_wei(100, 50_000, await head_of(node)) == 0
    await place_oracle(node, oracle({UPPER_BOUND: 1_000}))
    assert await fees.data_fee_wei(100, 50_000, await head_of(node)) == 0


async def test_a_filler_is_estimated_on_a_real_node(node: Endpoint) -> None:
    """Goal: a filler's needs are the node's estimate with its buffer, and the data fee. Method: a real node with an
    oracle: 21,000 and a fifth, and twice the oracle's word for a transaction without data."""
    await place_oracle(node, oracle({UPPER_BOUND: 1_000}))
    needs = await DataFees(truth_of([node])).needs(SIGNERS[0], 0, await head_of(node))
    assert 25_200 <= needs.filler_gas <= 25_202
    assert needs.data_fee_wei == 2 * 1_000 * BYTES_BESIDE_DATA


def telling(answers: Mapping[str, object]) -> Voter:
    def answer(call: Call[Any]) -> object:
        return answers.get(call.method, away())

    return Voter("node", answer)


async def test_a_filler_on_arbitrum_takes_what_the_estimate_says() -> None:
    """Goal: no constant stands for a transfer's gas (connext#3528). Method: a node whose estimate holds another
    chain's data, and a block limit as Arbitrum's."""
    node = telling({"eth_estimateGas": hex(400_000), "eth_getCode": "0x"})
    head = evolve(HEAD, gas_limit=2**50)
    assert await DataFees(truth_of([node])).needs(SIGNERS[0], 0, head) == LaneNeeds(480_000, 0)


@pytest.mark.parametrize("estimate", [0, 20_999, HEAD.gas_limit + 1])
async def test_an_absurd_estimate_of_a_filler_is_refused(estimate: int) -> None:
    """Goal: a node's nonsense reserves nothing. Method: an estimate of nothing, of too little, of more than a block."""
    with pytest.raises(EstimateAbsurd):
        await DataFees(truth_of([telling({"eth_estimateGas": hex(estimate)})])).needs(SIGNERS[0], 0, HEAD)


async def test_what_cannot_be_read_is_not_taken_for_nothing() -> None:
    """Goal: a fault is no proof that there is no data fee, and is not remembered as one. Method: an endpoint that is
    away, then there; then one whose oracle's answer is no number."""
    node = telling({})
    fees = DataFees(truth_of([node]))
    plain = DataFees(truth_of([node]))
    for each in (fees, plain):
        with pytest.raises(NoQuorum):
            await each.data_fee_wei(0, 21_000, HEAD)
    node.answer = telling({"eth_getCode": "0x"}).answer
    assert await plain.data_fee_wei(0, 21_000, HEAD) == 0
    node.answer = telling({"eth_getCode": "0x60"}).answer
    with pytest.raises(NoQuorum):
        await fees.data_fee_wei(0, 21_000, HEAD)
    node.answer = telling({"eth_call": "0x" + "00" * 31 + "05"}).answer
    assert await fees.data_fee_wei(0, 21_000, HEAD) == 2 * (5 + 5)
    node.answer = telling({"eth_call": "0x05"}).answer
    with pytest.raises(MarketAbsurd):
        await fees.data_fee_wei(0, 21_000, HEAD)


async def test_one_liar_of_three_moves_no_need() -> None:
    """Goal: one endpoint's word closes no lane and opens none. Method: three voters on an OP-stack chain, one of which
    tells far more or nothing, of gas and of the fee."""

    def voter(name: str, gas: int, fee_wei: int) -> Voter:
        called = f"0x{fee_wei.to_bytes(32, 'big').hex()}"
        told = telling({"eth_getCode": "0x60", "eth_estimateGas": hex(gas), "eth_call": called})
        return Voter(name, told.answer)

    for lie in ((20_000_000, 10**18), (0, 0)):
        voters = [voter("one", 21_000, 5), voter("two", 21_001, 5), voter("liar", *lie)]
        needs = await DataFees(truth_of(voters)).needs(SIGNERS[0], 0, HEAD)
        assert needs.filler_gas in {25_200, 25_202}
        assert needs.data_fee_wei == 2 * (5 + 5)


@pytest.fixture
def chain() -> Iterator[LocalChain]:
    """A node of this test's own, whose accounts it may change."""
    with local_chain(block_seconds=None) as running:
        yield running


async def test_a_lane_closes_before_it_cannot_pay_for_its_bytes(engine: Engine) -> None:
    """Goal: the reserve and the next call count what an OP-stack chain charges beside gas (oisy-wallet#13938): a lane
    that has only gas times the ceiling takes no new work. Method: a balance of exactly that, before and after the chain
    has an oracle; then the balance with the data fees of the next call and of a filler."""
    signer = min(SIGNERS)
    needs = await DataFees(truth_of([engine.node])).needs(signer, ROOM_DATA_BYTES, await head_of(engine.node))
    assert needs.data_fee_wei == 0
    facts = LaneFacts((await lanes(engine))[signer], 1, False, False, 0, 0, 0, None, None)
    enough = needed_wei(facts, FEE_WEI_MAX, needs)
    await told(engine, "anvil_setBalance", str(signer), hex(enough))
    await look(engine)
    assert (await lanes(engine))[signer].state == "open"
    await place_oracle(engine.node, oracle({UPPER_BOUND: 1_000}))
    data_fee_wei = 2 * 1_000 * (ROOM_DATA_BYTES + BYTES_BESIDE_DATA)
    await look(engine)
    assert (await lanes(engine))[signer].state == "underfunded"
    room = room_wei(facts, FEE_WEI_MAX, evolve(needs, data_fee_wei=data_fee_wei))
    await told(engine, "anvil_setBalance", str(signer), hex(enough + 2 * data_fee_wei + room - 1))
    await look(engine)
    assert (await lanes(engine))[signer].state == "underfunded"
    await told(engine, "anvil_setBalance", str(signer), hex(enough + 2 * data_fee_wei + room))
    await look(engine)
    assert (await lanes(engine))[signer].state == "open"


async def test_needs_that_are_not_agreed_stay_as_they_were_known(engine: Engine) -> None:
    """Goal: an oracle that cannot be read stops no watch and lowers no reserve. Method: a lane that cannot pay for its
    bytes; then an oracle whose answer is no number; the lane stays closed and goes on being looked at."""
    signer = min(SIGNERS)
    watch = watch_of(engine)
    facts = LaneFacts((await lanes(engine))[signer], 1, False, False, 0, 0, 0, None, None)
    await place_oracle(engine.node, oracle({UPPER_BOUND: 60_000}))
    enough = needed_wei(facts, FEE_WEI_MAX) + room_wei(facts, FEE_WEI_MAX)
    await told(engine, "anvil_setBalance", str(signer), hex(enough - room_wei(facts, FEE_WEI_MAX)))
    await look(engine, watch)
    assert (await lanes(engine))[signer].state == "underfunded"
    # It returns nothing, whatever is asked.
    await place_oracle(engine.node, b"\x00")
    await told(engine, "anvil_setBalance", str(signer), hex(enough))
    with capture_logs() as lines:
        await look(engine, watch)
    assert "lane_needs_not_agreed" in [line["event"] for line in lines]
    lane = (await lanes(engine))[signer]
    assert (lane.state, lane.balance_wei) == ("underfunded", enough)
