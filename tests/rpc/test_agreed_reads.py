"""Every answer a majority's, about one agreed block (RPC-5)."""

from __future__ import annotations

from typing import Any

import pytest

from rpc import methods, schemas
from rpc.agreed_reads import AgreedReads
from rpc.errors import NoQuorum, Reverted, RpcError
from rpc.methods import Call, CallRequest
from rpc.quantities import as_data
from rpc.quorum import Quorum
from tests.rpc import examples
from tests.rpc.voting import Voter, away

HEAD = schemas.header(examples.block())
HERE = {"blockHash": as_data(HEAD.hash)}
ACCOUNT = bytes(range(20))
REQUEST = CallRequest(ACCOUNT, ACCOUNT)


def says(answers: dict[str, object], seen: list[Call[Any]]) -> Any:
    def answer(call: Call[Any]) -> object:
        seen.append(call)
        return answers[call.method]

    return answer


def reads(*answers: dict[str, object], seen: list[Call[Any]] | None = None) -> AgreedReads:
    told: list[Call[Any]] = [] if seen is None else seen
    return AgreedReads(Quorum([Voter(str(place), says(each, told)) for place, each in enumerate(answers)]), HEAD)


@pytest.mark.parametrize(
    ("call", "answer"),
    [
        (methods.call(REQUEST, "latest"), "0x01"),
        (methods.call(REQUEST, "pending"), "0x01"),
        (methods.call(REQUEST, HEAD.number), "0x01"),
        (methods.balance(ACCOUNT, "latest"), "0x1"),
        (methods.code(ACCOUNT, HEAD.number), "0x"),
        (methods.transaction_count(ACCOUNT, "latest"), "0x1"),
        (methods.estimate_gas(REQUEST, "latest"), "0x5208"),
    ],
)
async def test_the_present_is_the_agreed_head_by_its_hash(call: Call[Any], answer: object) -> None:
    """Goal: voters are asked about one block, not about what each calls the latest. Method: the parameters that
    reached them."""
    seen: list[Call[Any]] = []
    await reads(*[{call.method: answer}] * 3, seen=seen).ask(call)
    assert {str(one.params[1]) for one in seen} == {str(HERE)}


async def test_another_block_stays_the_one_that_was_named() -> None:
    """Goal: nothing else is rewritten. Method: an older height, and a hash."""
    for block in (HEAD.number - 1, b"\x07" * 32):
        call = methods.balance(ACCOUNT, block)
        seen: list[Call[Any]] = []
        await reads(*[{call.method: "0x1"}] * 3, seen=seen).ask(call)
        assert [one.params for one in seen[:1]] == [call.params]


async def test_the_head_is_known_without_a_question() -> None:
    """Goal: the head is the agreed one even where voters are ahead. Method: voters that answer nothing."""
    agreed = reads({}, {}, {})
    assert await agreed.ask(methods.block_by_number("latest")) == HEAD
    assert await agreed.ask(methods.block_number()) == HEAD.number


async def test_a_revert_needs_a_majority() -> None:
    """Goal: no single node says that a call reverts. Method: one of three reverts, then two of three."""
    call = methods.call(REQUEST, "latest")
    revert = Reverted(3, "execution reverted", endpoint="node", method=call.method, data=b"\x08")
    fine, bad = {call.method: "0x01"}, {call.method: revert}
    assert await reads(bad, fine, fine).ask(call) == b"\x01"
    with pytest.raises(Reverted) as caught:
        await reads(bad, fine, bad).ask(call)
    assert caught.value.data == b"\x08"
    with pytest.raises(NoQuorum):
        await reads(bad, fine, {call.method: away()}).ask(call)


async def test_estimates_may_differ_and_only_their_success_is_voted_on() -> None:
    """Goal: two implementations that estimate differently still agree. Method: three estimates; then two reverts."""
    call = methods.estimate_gas(REQUEST, "latest")
    assert await reads(*({call.method: gas} for gas in ("0x5208", "0x5209", "0x520a"))).ask(call) in range(
        0x5208, 0x520B
    )
    revert = Reverted(3, "execution reverted", endpoint="node", method=call.method, data=b"")
    with pytest.raises(Reverted):
        await reads({call.method: revert}, {call.method: "0x5208"}, {call.method: revert}).ask(call)


async def test_answers_of_many_keep_their_order_and_their_own_errors() -> None:
    """Goal: a batch is answered as it was asked. Method: kinds that are known, counted, agreed and contested, mixed."""
    answers = {"eth_call": "0x01", "eth_estimateGas": "0x5208", "eth_getBalance": "0x2"}
    other = {**answers, "eth_getBalance": "0x3"}
    calls: list[Call[object]] = [
        methods.balance(ACCOUNT, "latest"),
        methods.estimate_gas(REQUEST, "latest"),
        methods.block_number(),
        methods.call(REQUEST, "latest"),
    ]
    found = await reads(answers, other, {**answers, "eth_getBalance": away()}).ask_many(calls)
    assert isinstance(found[0], NoQuorum)
    assert found[1:] == [0x5208, HEAD.number, b"\x01"]
    assert not any(isinstance(one, RpcError) for one in found[1:])
