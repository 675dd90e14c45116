"""All voters at once, an answer as soon as a majority agrees, and evidence of what was contested (RPC-5)."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
import trio
import trio.testing

from rpc import methods, schemas
from rpc.ballots import Agreed
from rpc.endpoint import Endpoint
from rpc.errors import NoQuorum, Reverted
from rpc.evidence import ANSWER_CHARACTERS_MAX, Evidence
from rpc.methods import CallRequest
from rpc.quorum import Quorum
from tests.rpc import examples
from tests.rpc.faulty_server import CHAIN_ID, answer, faulty_server, hang, refuse
from tests.rpc.voting import Voter, away, saying

RECEIPT = methods.transaction_receipt(bytes.fromhex(examples.HASH[2:]))
AT = datetime(2026, 1, 2, tzinfo=UTC)


def quorum(*voters: Voter, kept: list[Evidence] | None = None, **options: Any) -> Quorum:
    return Quorum(voters, None if kept is None else kept.append, now=lambda: AT, **options)


async def test_the_decision_falls_with_the_majority(autojump_clock: trio.testing.MockClock) -> None:
    """Goal: nobody waits for the slowest voter. Method: voters of one, two and a hundred seconds; the answer is there
    after two. With a lie among the fast ones it is there after the slow one."""
    honest = saying(examples.receipt())
    voters = [Voter("a", honest, 1), Voter("b", honest, 2), Voter("c", honest, 9)]
    started = trio.current_time()
    agreed = await quorum(*voters).agreed(RECEIPT)
    assert trio.current_time() - started == 2
    assert [vote.voter for vote in agreed.votes] == ["a", "b"]
    assert [vote.seconds for vote in agreed.votes] == [1, 2]
    voters[0].answer = saying(None)
    kept: list[Evidence] = []
    agreed = await quorum(*voters, kept=kept).agreed(RECEIPT)
    assert trio.current_time() - started == 2 + 9
    assert agreed.dissenters == ("a",)
    assert [evidence.outcome for evidence in kept] == ["agreed"]


async def test_no_majority_is_told_as_soon_as_none_is_possible(autojump_clock: trio.testing.MockClock) -> None:
    """Goal: a refusal does not wait for votes that change nothing. Method: two of three away, the third slow."""
    with pytest.raises(NoQuorum) as caught:
        await quorum(Voter("a", saying(away()), 1), Voter("b", saying(away()), 2), Voter("c", saying(None), 50)).agreed(
            RECEIPT
        )
    assert trio.current_time() < 10
    assert [vote.voter for vote in caught.value.votes] == ["a", "b"]


async def test_a_decision_is_bounded_whatever_the_voters_do(autojump_clock: trio.testing.MockClock) -> None:
    """Goal: no voter holds a decision for ever. Method: two that never answer, and a deadline of seven seconds."""
    started = trio.current_time()
    with pytest.raises(NoQuorum, match="no answer in time"):
        await quorum(
            Voter("a", saying(None)), Voter("b", saying(None), 1e9), Voter("c", saying(None), 1e9), deadline_seconds=7
        ).agreed(RECEIPT)
    assert trio.current_time() - started == 7


async def test_answers_of_one_moment_lose_no_majority(autojump_clock: trio.testing.MockClock) -> None:
    """Goal: the cancellation of the rest never costs a consensus that was reached (erpc PR#832). Method: all voters
    answer at the very same instant as the deadline, a hundred times."""
    for _ in range(100):
        voters = [Voter(name, saying(None), 5) for name in "abc"]
        try:
            agreed = await quorum(*voters, deadline_seconds=5).agreed(RECEIPT)
        except NoQuorum as refused:
            # Cut off before they came. An answer that came is counted.
            assert len(refused.votes) < 2
        else:
            assert agreed.value is None


async def test_each_item_of_a_batch_is_decided_by_itself() -> None:
    """Goal: one batch a voter, and one item without a majority spoils no other. Method: three items: agreed, with a
    dissenter, without a majority; then none at all."""
    values = {"a": ["0x1", "0x2", "0x3"], "b": ["0x1", "0x2", "0x4"], "c": ["0x1", "0x9", "0x5"]}

    def answers(name: str) -> Any:
        return lambda call: values[name][int(call.params[1], 16)]

    voters = [Voter(name, answers(name)) for name in values]
    kept: list[Evidence] = []
    first, second, third = await quorum(*voters, kept=kept).agreed_many(
        [methods.transaction_count(b"\1" * 20, block) for block in range(3)]
    )
    assert isinstance(first, Agreed)
    assert first.value == 1
    assert isinstance(second, Agreed)
    assert (second.value, second.dissenters) == (2, ("c",))
    assert isinstance(third, NoQuorum)
    assert [voter.batches for voter in voters] == [1, 1, 1]
    assert [evidence.outcome for evidence in kept] == ["agreed", "no quorum"]
    assert await quorum(*voters).agreed_many([]) == []


async def test_evidence_says_who_said_what_in_our_own_words() -> None:
    """Goal: a dispute can be judged later. Method: a dissenter whose receipt is huge, and one that is away."""
    big = examples.receipt(logs=[examples.log(logIndex=hex(number)) for number in range(500)], smuggled="x" * 9000)
    kept: list[Evidence] = []
    voters = [Voter("a", saying(examples.receipt())), Voter("b", saying(big)), Voter("c", saying(away("c")))]
    with pytest.raises(NoQuorum):
        await quorum(*voters, kept=kept).agreed(RECEIPT)
    (evidence,) = kept
    assert (evidence.method, evidence.outcome, evidence.decided_at) == ("eth_getTransactionReceipt", "no quorum", AT)
    assert examples.HASH in evidence.subject
    a, b, c = evidence.testimonies
    assert a.answer is not None
    assert '"status":"0x1"' in a.answer
    assert b.answer is not None
    assert len(b.answer) < ANSWER_CHARACTERS_MAX + 50
    assert "smuggled" not in b.answer
    assert (c.answer, c.error) == (None, "c: connection refused")


async def test_what_is_contested_by_nobody_leaves_no_evidence() -> None:
    """Goal: the store does not fill with peace. Method: two that agree, one that is away."""
    kept: list[Evidence] = []
    honest = saying(examples.receipt())
    await quorum(Voter("a", honest), Voter("b", honest), Voter("c", saying(away())), kept=kept).agreed(RECEIPT)
    assert kept == []


async def test_an_agreed_revert_is_raised_as_one() -> None:
    """Goal: a revert reaches the caller as from one endpoint. Method: two of three revert alike."""
    revert = Reverted(3, "execution reverted", data=b"\7")
    voters = [Voter("a", saying(revert)), Voter("b", saying("0x")), Voter("c", saying(revert))]
    with pytest.raises(Reverted) as caught:
        await quorum(*voters).agreed(methods.call(CallRequest(b"\1" * 20, b"\2" * 20), 1))
    assert caught.value.data == b"\7"


async def test_what_may_not_vote_is_refused() -> None:
    """Goal: no voter counts twice, no write is voted on. Method: a name twice, nobody, a write."""
    twice = Voter("a", saying(None))
    with pytest.raises(ValueError, match="stands twice"):
        quorum(twice, Voter("b", saying(None)), twice)
    with pytest.raises(ValueError, match="at least one"):
        quorum()
    with pytest.raises(ValueError, match="write"):
        await quorum(twice).agreed(methods.send_raw_transaction(b"\1"))


async def test_a_defect_of_a_voter_is_not_an_answer() -> None:
    """Goal: our own bug is not taken for a vote. Method: a voter that raises what no endpoint raises."""

    def broken(_: object) -> object:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await quorum(Voter("a", saying(None)), Voter("b", broken, 0.01), Voter("c", saying(None), 1)).agreed(RECEIPT)


async def test_real_endpoints_one_lying_one_hanging_one_refusing_in_turn() -> None:
    """Goal: the voters are endpoints. Method: three servers; the third answers wrong, hangs, refuses, in turn."""
    honest = answer(examples.receipt())
    async with (
        faulty_server(honest) as one,
        faulty_server(honest) as two,
        faulty_server() as three,
        Endpoint.open(one.url, chain_id=CHAIN_ID) as a,
        Endpoint.open(two.url, chain_id=CHAIN_ID) as b,
        Endpoint.open(three.url, chain_id=CHAIN_ID) as c,
    ):
        voters = Quorum([a, b, c])
        for behaviour in (answer(examples.receipt(status="0x0")), hang, refuse(-32000, "no"), answer("0x1")):
            three.otherwise = behaviour
            with trio.fail_after(5):
                agreed = await voters.agreed(RECEIPT)
            assert agreed.value == schemas.receipt(examples.receipt())
