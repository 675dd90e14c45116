"""Two lying endpoints of three end nothing that the block refutes: only its hash is left to be believed (RPC-11)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from attrs import evolve
from structlog.testing import capture_logs

from rpc.errors import EndpointFault, Transport
from rpc.proof_errors import ProofRefuted
from rpc.reads import Call as Question
from rpc.values import Header, Receipt
from tests.rpc.voting import fields_voted, forgeries_of
from tests.transactions.conftest import Engine
from tests.transactions.test_liars import Lie, forging, hide, mined, reconciler, recorded, three, told

WHOLE = ("eth_getBlockReceipts", "eth_getBlockByHash")
FORGED = [name for name in fields_voted(Receipt) if name != "contract_address"]


def everywhere(name: str) -> Lie:
    """The same forged field in the receipt and in the receipts of its block."""

    def lie(call: Question[Any], answer: Any) -> Any:
        if isinstance(answer, Receipt):
            return forgeries_of(answer)[name]
        if call.method == "eth_getBlockReceipts" and isinstance(answer, tuple):
            return tuple(forgeries_of(each)[name] for each in answer)
        return answer

    return lie


def hiding(lie: Lie) -> Lie:
    return lambda call, answer: hide(call, lie(call, answer))


def unknown(lie: Lie) -> Lie:
    """A liar that does not know the block."""
    return lambda call, answer: None if call.method in WHOLE and call.params[1:] != (False,) else lie(call, answer)


def named_by(lines: Sequence[Any], event: str) -> set[str]:
    key = {"answer_refuted": "endpoint"}[event]
    return {line[key] for line in lines if line["event"] == event}


@pytest.mark.parametrize("proves", [forging, everywhere, lambda name: hiding(forging(Receipt, name))])
async def test_two_liars_of_three_end_nothing(engine: Engine, proves: Callable[..., Lie]) -> None:
    """Goal: RPC-11 through the reconciler. Method: two of three tell the same forged receipt, each field in turn, over
    an honest header; about its block they tell the truth, the same lie, or nothing, and each of the three is the
    first to be asked for it. Nothing ends, both are named, and once one is honest the truth is recorded."""
    attempt, receipt = await mined(engine, "proven")
    for name in FORGED:
        lie = forging(Receipt, name) if proves is forging else proves(name)
        looking = reconciler(engine, *three(engine, lie, lie))
        for first in range(3):
            with capture_logs() as lines:
                await looking.tick()
            assert await engine.plane.state(attempt.job_id) == "confirming", (name, first)
            if name not in ("block_hash", "block_number"):
                assert named_by(lines, "answer_refuted") == {"liar", "accomplice"}, (name, first)
    async with engine.plane.database.connection() as connection:
        assert await connection.fetchval("SELECT count(*) FROM transactions.receipts") == 0
    await reconciler(engine, *three(engine, everywhere("status"))).tick()
    assert await recorded(engine, receipt.transaction_hash) == told(receipt)


async def test_one_liar_delays_nothing_and_is_named_for_its_block(engine: Engine) -> None:
    """Goal: whoever lies about a block is asked no further and loses nobody a look. Method: one of three forges the
    receipts of whole blocks alone, votes honestly, and is the first to be asked; then one that does not know the
    block, and one that is away when asked for it."""

    def away(call: Question[Any], answer: Any) -> Any:
        return EndpointFault("liar", Transport("reset")) if call.method == "eth_getBlockReceipts" else answer

    def forges(call: Question[Any], answer: Any) -> Any:
        return everywhere("status")(call, answer) if call.method == "eth_getBlockReceipts" else answer

    for lie, named in ((forges, {"liar"}), (unknown(lambda _, answer: answer), set[str]()), (away, set[str]())):
        attempt, receipt = await mined(engine, f"block {named} {lie}")
        with capture_logs() as lines:
            await reconciler(engine, *three(engine, lie)).tick()
        assert await engine.plane.state(attempt.job_id) == "completed"
        assert await recorded(engine, receipt.transaction_hash) == told(receipt)
        assert named_by(lines, "answer_refuted") == named


async def test_a_header_that_does_not_make_its_hash_ends_nothing(engine: Engine) -> None:
    """Goal: the roots are worth what the hash is worth. Method: two of three tell the same header with another receipts
    root under the true hash, and receipts to match."""
    attempt, _ = await mined(engine, "header")

    def lie(call: Question[Any], answer: Any) -> Any:
        if isinstance(answer, Header):
            return evolve(answer, receipts_root=b"\1" * 32)
        return everywhere("status")(call, answer)

    with pytest.raises(ProofRefuted, match="the hash"):
        await reconciler(engine, *three(engine, lie, lie)).tick()
    assert await engine.plane.state(attempt.job_id) == "confirming"


async def test_where_nobody_can_prove_the_votes_decide(engine: Engine) -> None:
    """Goal: a proof that cannot be had takes nothing away. Method: no endpoint serves receipts of blocks; none knows
    the block; all leave out a field that the header's hash needs, as some chains do."""

    def without(call: Question[Any], answer: Any) -> Any:
        if isinstance(answer, Header):
            return evolve(answer, mix_hash=None)
        if call.method == "eth_getBlockByHash":
            return evolve(answer, header=evolve(answer.header, mix_hash=None))
        return answer

    for number, lie in enumerate((hide, unknown(lambda _, answer: answer), without)):
        attempt, receipt = await mined(engine, f"unproven {number}")
        with capture_logs() as lines:
            await reconciler(engine, *three(engine, lie, lie, lie)).tick()
        assert await engine.plane.state(attempt.job_id) == "completed"
        assert await recorded(engine, receipt.transaction_hash) == told(receipt)
        assert named_by(lines, "answer_refuted") == set()


async def test_a_look_at_many_blocks_asks_one_endpoint_twice(engine: Engine) -> None:
    """Goal: the cost is in round trips, and goes round. Method: seven transactions in seven blocks, looked at by three
    honest voters; then seven more: another endpoint is asked. A single voter is not asked for proofs of itself."""
    asked: list[str] = []

    def noting(name: str) -> Lie:
        def note(call: Question[Any], answer: Any) -> Any:
            if call.method in WHOLE:
                asked.append(name)
            return answer

        return note

    looking = reconciler(engine, *three(engine, noting("a"), noting("b"), noting("c")))
    for first in ("a", "b"):
        for number in range(7):
            await mined(engine, f"{first} {number}")
        asked.clear()
        await looking.tick()
        assert asked == [first] * 14
        async with engine.plane.database.connection() as connection:
            assert await connection.fetchval("SELECT count(*) FROM transactions.lineages WHERE ended_at IS NULL") == 0
    await mined(engine, "alone")
    asked.clear()
    await reconciler(engine, three(engine, noting("alone"))[0]).tick()
    assert asked == []
