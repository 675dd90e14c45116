"""One liar of three, in every field that a decision rests on (RPC-5): nothing moves, and the liar is named.

The liar answers first, so that it is heard before the honest two decide.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar, cast

import pytest
import trio
import trio.testing
from attrs import define, field
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rpc import methods
from rpc.ballots import Agreed
from rpc.errors import EndpointFault
from rpc.evidence import Evidence
from rpc.heads import Heads
from rpc.pool import ReadPool
from rpc.quorum import Quorum
from rpc.reads import Call
from rpc.truth import ChainTruth
from tayho.voters import truth_of
from tests.rpc.faulty_server import Request
from tests.rpc.front.front import Front, Json, answer_with, fronts, nodes
from tests.rpc.front.ground import ACCOUNT, CHAIN_ID, Ground, ground
from tests.rpc.matrix.questions import DEPTH
from tests.rpc.matrix.wrong_stories import header_lies, receipt_lies

pytestmark = pytest.mark.services

T = TypeVar("T")
Lie = Callable[[Json], Json]
MANY = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture(scope="module")
def base() -> Iterator[Ground]:
    with ground() as running:
        yield running


def data(length: int) -> st.SearchStrategy[str]:
    return st.binary(min_size=length, max_size=length).map(lambda content: "0x" + content.hex())


def quantity(bits: int) -> st.SearchStrategy[str]:
    return st.integers(0, 2**bits - 1).map(hex)


def receipt_fields() -> st.SearchStrategy[tuple[str, Any]]:
    """A field of a receipt, or of its event ("log …"), and any well-formed value for it."""
    values: dict[str, st.SearchStrategy[Any]] = {
        "status": quantity(1),
        "blockHash": data(32),
        "blockNumber": quantity(64),
        "transactionHash": data(32),
        "transactionIndex": quantity(64),
        "from": data(20),
        "to": st.none() | data(20),
        "gasUsed": quantity(64),
        "cumulativeGasUsed": quantity(64),
        "effectiveGasPrice": quantity(256),
        "type": st.integers(0, 127).map(hex),
        "logs": st.just([]),
        "log address": data(20),
        "log topics": st.lists(data(32), max_size=4),
        "log data": st.binary(max_size=64).map(lambda content: "0x" + content.hex()),
        "log logIndex": quantity(64),
    }
    return st.sampled_from(sorted(values)).flatmap(lambda name: st.tuples(st.just(name), values[name]))


def header_fields() -> st.SearchStrategy[tuple[str, Any]]:
    """A field of a header and any well-formed value for it."""
    values = {
        **dict.fromkeys(("hash", "parentHash", "stateRoot", "receiptsRoot", "transactionsRoot"), data(32)),
        **dict.fromkeys(("number", "timestamp", "gasUsed", "gasLimit"), quantity(64)),
        "baseFeePerGas": quantity(256),
        "miner": data(20),
        "logsBloom": data(256),
    }
    return st.sampled_from(sorted(values)).flatmap(lambda name: st.tuples(st.just(name), values[name]))


@define
class Heard:
    """A decision, and what was kept of it."""

    decision: Agreed[Any]
    evidence: list[Evidence] = field(factory=list[Evidence])


def lying(endpoints: Sequence[Front], liar: int, method: str, lie: Callable[[Any], Any]) -> Callable[[], bool]:
    """One endpoint lies about a method, and the others are heard after it. Whether anything was lied about."""
    told = trio.Event()
    changed: list[bool] = []

    async def first(request: Request) -> None:
        answers = await endpoints[liar].honest(request)
        lies = [
            answer | {"result": lie(answer["result"])} if call["method"] == method else answer
            for call, answer in zip(request.calls, answers, strict=True)
        ]
        changed.append(lies != answers)
        await answer_with(request, lies)
        told.set()

    async def after(request: Request, front: Front) -> None:
        answers = await front.honest(request)
        await told.wait()
        # The liar's answer is on its way: it has to be read before ours, by a client of the same machine.
        await trio.testing.wait_all_tasks_blocked(0.005)
        await answer_with(request, answers)

    for place, front in enumerate(endpoints):
        front.arm(first if place == liar else lambda request, front=front: after(request, front), {method})
    return lambda: any(changed)


async def heard(base: Ground, call: Call[Any], liar: int, lie: Callable[[Any], Any]) -> None:
    """Ask three, of whom one lies: the decision is the truth, and the liar is named with what it said."""
    async with nodes(base) as both, fronts(both, 3) as endpoints:
        urls = [endpoint.url for endpoint in endpoints]
        async with ReadPool.open(urls, chain_id=CHAIN_ID, head_poll_seconds=None) as pool:
            truth = (await Quorum(pool.members).agreed(call)).value
            has_lied = lying(endpoints, liar, call.method, lie)
            kept: list[Evidence] = []
            decision = await Quorum(pool.members, kept.append).agreed(call)
            assert decision.value == truth
            if has_lied():
                named(decision, kept, pool.members[liar].shown)


def named(decision: Agreed[Any], kept: Sequence[Evidence], liar: str) -> None:
    """The liar dissents and its words are kept; or what it said contradicts itself, and it is faulted by name."""
    (vote,) = [vote for vote in decision.votes if vote.voter == liar]
    if isinstance(vote.outcome, EndpointFault):
        assert vote.outcome.endpoint == liar
        return
    if vote.outcome == decision.value:
        # It lied about a field that no decision rests on, or in other words for the same.
        return
    assert decision.dissenters == (liar,)
    (evidence,) = kept
    dissent = [testimony for testimony in evidence.testimonies if testimony.dissents]
    honest = {testimony.answer for testimony in evidence.testimonies if not testimony.dissents}
    assert [testimony.voter for testimony in dissent] == [liar]
    assert dissent[0].answer not in honest
    assert len(evidence.testimonies) >= 2


@MANY
@given(receipt_fields(), st.integers(0, 2))
def test_a_lie_in_any_field_of_a_receipt_moves_nothing(base: Ground, field: tuple[str, Any], liar: int) -> None:
    """Goal: one of three cannot forge a receipt. Method: any well-formed value in each field, at each endpoint."""
    name, value = field

    def lie(receipt: Json) -> Json:
        if name.startswith("log "):
            return receipt | {"logs": [event | {name[4:]: value} for event in receipt["logs"]]}
        in_events = name in receipt["logs"][0]
        events = [event | {name: value} for event in receipt["logs"]] if in_events else receipt["logs"]
        return receipt | {"logs": events} | {name: value}

    trio.run(heard, base, methods.transaction_receipt(base.transaction), liar, lie)


@MANY
@given(header_fields(), st.integers(0, 2))
def test_a_lie_in_any_field_of_a_header_moves_nothing(base: Ground, field: tuple[str, Any], liar: int) -> None:
    """Goal: one of three cannot forge a block, its hash included. Method: any well-formed value in each field."""
    name, value = field
    trio.run(heard, base, methods.block_by_number(base.height), liar, lambda header: header | {name: value})


@MANY
@given(st.integers(0, 2**64 - 1), st.integers(0, 2))
def test_a_lie_about_a_nonce_moves_nothing(base: Ground, nonce: int, liar: int) -> None:
    """Goal: one of three cannot move a confirmed nonce, up or down. Method: any nonce, at each endpoint."""
    trio.run(heard, base, methods.transaction_count(ACCOUNT, base.height), liar, lambda truth: hex(nonce))


LIES: dict[str, tuple[str, Callable[[Any], Any]]] = {
    **{f"receipt {name}": ("eth_getTransactionReceipt", lie) for name, lie in receipt_lies().items()},
    "no receipt": ("eth_getTransactionReceipt", lambda receipt: None),
    **{
        f"header {name}": (
            "eth_getBlockByNumber",
            lambda header, name=name, value=value: header and header | {name: value},
        )
        for name, value in header_lies().items()
    },
    "no block": ("eth_getBlockByNumber", lambda header: None),
    "nonce up": ("eth_getTransactionCount", lambda count: hex(int(count, 16) + 1)),
    "nonce 0": ("eth_getTransactionCount", lambda count: "0x0"),
}


@pytest.mark.parametrize("liar", [0, 2])
@pytest.mark.parametrize("lie", LIES)
async def test_no_lie_moves_what_the_reconciler_sees(base: Ground, lie: str, liar: int) -> None:
    """Goal: a whole look at the chain is the same with a liar. Method: one lie in every answer of one endpoint."""
    async with nodes(base) as both, fronts(both, 3) as endpoints:
        urls = [endpoint.url for endpoint in endpoints]
        async with ReadPool.open(urls, chain_id=CHAIN_ID, head_poll_seconds=None) as pool:
            truth = await look(pool, base)
            assert truth.receipts[base.transaction] is not None
            assert not truth.failures
            method, change = LIES[lie]
            has_lied = lying(endpoints, liar, method, change)
            assert await look(pool, base) == truth
            assert has_lied()


async def look(pool: ReadPool, base: Ground) -> Any:
    quorum = Quorum(pool.members)
    return await ChainTruth(quorum, Heads(quorum)).look(
        [base.transaction], [ACCOUNT], confirmations=DEPTH, lookback=DEPTH
    )


@pytest.mark.parametrize(
    ("method", "lie", "doubts"),
    [
        ("eth_getTransactionReceipt", lambda receipt: receipt | {"gasUsed": "0x5"}, True),
        ("eth_getBlockReceipts", lambda receipts: [each | {"status": "0x0"} for each in receipts], True),
        ("eth_getTransactionReceipt", lambda receipt: None, False),
    ],
    ids=["outvoted", "refuted", "lagging"],
)
async def test_who_is_contradicted_loses_its_rank(base: Ground, method: str, lie: Lie, doubts: bool) -> None:
    """Goal: a liar is asked last, for whatever. Method: the first of three tells another receipt than two, or receipts
    of a block that the block refutes, and then has a lower score and no more ordinary reads; one that has no receipt
    yet only lags, and keeps its place."""
    async with nodes(base) as both, fronts(both, 3) as endpoints:
        urls = [endpoint.url for endpoint in endpoints]
        async with ReadPool.open(urls, chain_id=CHAIN_ID, head_poll_seconds=None) as pool:
            truth = truth_of(pool.members, on_dissent=pool.note_dissent, on_lie=pool.note_lie)
            await pool.ask(methods.block_number())
            lying(endpoints, 0, method, cast("Any", lie))
            await truth.look([base.transaction], [], confirmations=DEPTH, lookback=DEPTH)
            first, *others = pool.status()
            assert bool(first.dissents) == doubts
            assert all(other.dissents == 0 for other in others)
            asked = endpoints[0].asked("eth_blockNumber")
            await pool.ask(methods.block_number())
            if doubts:
                assert all(first.score < other.score for other in others)
                assert endpoints[0].asked("eth_blockNumber") == asked
