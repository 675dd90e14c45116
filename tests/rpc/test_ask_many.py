"""Many questions at once: batches, their faults, and providers that want smaller ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest
import trio

from rpc import methods
from rpc.endpoint import Endpoint
from rpc.errors import DeadlinePassed, EndpointFault, HttpStatus, Malformed, Reason, Reverted, RpcRefused
from rpc.reads import Call, Reads
from tests.rpc import faulty_server as faulty
from tests.rpc.faulty_server import CHAIN_ID, Behaviour, FaultyServer, Request, envelope
from tests.waiting import until


def question(number: int) -> Call[int]:
    """A question whose honest answer is its own number."""
    return methods.balance(number.to_bytes(20, "big"), "latest")


QUESTIONS = [question(number) for number in range(1, 8)]
HONEST = faulty.answer(lambda call: hex(int(call["params"][0], 16)))


def sizes(server: FaultyServer) -> list[int]:
    """How many questions each request carried, chain checks aside."""
    return [len(request.calls) for request in server.requests if request.calls[0]["method"] != "eth_chainId"]


def at_most(items_max: int, refusal: Behaviour) -> Behaviour:
    """Honest up to so many questions."""

    async def behave(request: Request) -> None:
        await (HONEST if len(request.calls) <= items_max else refusal)(request)

    return behave


def rearranged(change: Callable[[list[dict[str, Any]]], object]) -> Behaviour:
    """The honest answers of a batch, changed by `change(answers)`."""
    return faulty.answer_document(
        lambda asked: change([envelope(call, hex(int(call["params"][0], 16))) for call in asked])
    )


def open_endpoint(server: FaultyServer, **options: Any) -> AbstractAsyncContextManager[Endpoint]:
    patient: dict[str, Any] = {"chain_id": CHAIN_ID, "deadline_seconds": 20}
    return Endpoint.open(server.url, **(patient | options))


def reasons(outcomes: Sequence[object]) -> list[Reason]:
    """Why each was not answered."""
    return [outcome.reason for outcome in outcomes if isinstance(outcome, EndpointFault)]


async def test_answers_come_in_the_order_asked(server: FaultyServer) -> None:
    """Goal: every answer at its place. Method: numbered questions in batches of three, one left over, none."""
    server.otherwise = HONEST
    async with open_endpoint(server, batch_items_max=3) as asked:
        assert await asked.ask_many(QUESTIONS) == list(range(1, 8))
        assert sorted(sizes(server)) == [1, 3, 3]
        assert await asked.ask_many([]) == []
    asked_apart = [request for request in server.requests if request.calls[0]["method"] != "eth_chainId"]
    assert [request.is_batch for request in asked_apart] == [len(request.calls) > 1 for request in asked_apart]


async def test_an_endpoint_is_one_way_to_read(server: FaultyServer) -> None:
    """Goal: a pool can take an endpoint's place. Method: use it as the protocol, which the type checker holds it to."""
    server.otherwise = HONEST
    async with open_endpoint(server) as asked:
        reads: Reads = asked
        assert await reads.ask(QUESTIONS[0]) == 1
        assert await reads.ask_many(QUESTIONS[:2]) == [1, 2]


async def test_a_reordered_batch_is_put_in_order(server: FaultyServer) -> None:
    """Goal: servers may reorder (dshackle#148). Method: answers reversed."""
    server.behave(rearranged(lambda answers: answers[::-1]))
    async with open_endpoint(server) as asked:
        assert await asked.ask_many(QUESTIONS) == list(range(1, 8))


async def test_a_missing_a_doubled_and_a_spoilt_answer_cost_only_themselves(server: FaultyServer) -> None:
    """Goal: RPC-8, partial batches. Method: drop one answer, double one, spoil one; the others stand."""

    def change(answers: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [answers[0], answers[2], answers[2], answers[3] | {"result": "0x00"}, *answers[4:]]

    server.behave(rearranged(change))
    async with open_endpoint(server) as asked:
        outcomes = await asked.ask_many(QUESTIONS)
    assert outcomes[0] == 1
    assert outcomes[4:] == [5, 6, 7]
    for place, words in ((1, "not answered"), (2, "answered twice"), (3, "hex quantity")):
        fault = outcomes[place]
        assert isinstance(fault, EndpointFault)
        assert isinstance(fault.reason, Malformed)
        assert words in str(fault)
        assert fault.method == "eth_getBalance"


@pytest.mark.parametrize(
    "behaviour",
    [
        rearranged(lambda answers: [*answers, answers[0] | {"id": 10**6}]),
        rearranged(lambda answers: [*answers[:-1], {**answers[-1], "id": str(answers[-1]["id"])}]),
        rearranged(lambda answers: answers[0]),
        rearranged(lambda answers: [answers]),
        rearranged(lambda _: None),
        faulty.answer_body(b"<html>"),
        faulty.close_in_body,
    ],
)
async def test_a_batch_with_a_foreign_answer_is_worth_nothing(server: FaultyServer, behaviour: Behaviour) -> None:
    """Goal: no value out of an answer that mixes questions up. Method: foreign ids, no array, no answer."""
    server.behave(behaviour)
    async with open_endpoint(server) as asked:
        outcomes = await asked.ask_many(QUESTIONS)
    assert all(isinstance(outcome, EndpointFault) for outcome in outcomes)
    assert len({id(outcome) for outcome in outcomes}) == len(QUESTIONS)


async def test_a_fault_of_one_batch_leaves_the_others(server: FaultyServer) -> None:
    """Goal: batches fail apart. Method: the batch with question 1 gets a 503, the others answers."""

    async def behave(request: Request) -> None:
        is_first = int(request.calls[0]["params"][0], 16) == 1
        await (faulty.answer_body(b"", status=503) if is_first else HONEST)(request)

    server.otherwise = behave
    async with open_endpoint(server, batch_items_max=3) as asked:
        outcomes = await asked.ask_many(QUESTIONS)
    assert reasons(outcomes[:3]) == [HttpStatus(503)] * 3
    assert outcomes[3:] == [4, 5, 6, 7]


async def test_refusals_and_reverts_stand_at_their_places(server: FaultyServer) -> None:
    """Goal: answers of every kind in one batch. Method: a value, a refusal, a revert, null."""

    def make(asked: list[dict[str, Any]]) -> list[dict[str, Any]]:
        head = [{"jsonrpc": "2.0", "id": call["id"]} for call in asked]
        return [
            head[0] | {"result": "0x1"},
            head[1] | {"error": {"code": -32000, "message": "no"}},
            head[2] | {"error": {"code": 3, "message": "execution reverted"}},
            head[3] | {"result": None},
        ]

    server.behave(faulty.answer_document(make))
    async with open_endpoint(server) as asked:
        outcomes = await asked.ask_many([*QUESTIONS[:3], methods.transaction_receipt(b"\x01" * 32)])
    assert outcomes[0] == 1
    assert type(outcomes[1]) is RpcRefused
    assert type(outcomes[2]) is Reverted
    assert outcomes[3] is None


REFUSALS: dict[str, Behaviour] = {
    "413": faulty.answer_body(b"too large", status=413),
    "one error for all": faulty.answer_document(
        lambda _: {"jsonrpc": "2.0", "id": None, "error": {"code": -32000, "message": "batch limit 2 exceeded"}}
    ),
    "one error for all, status 400": faulty.answer_document(
        lambda _: {"jsonrpc": "2.0", "id": None, "error": {"code": -32005, "message": "Batch size limit exceeded"}},
        status=400,
    ),
    "batches not understood": faulty.answer_document(
        lambda _: {"jsonrpc": "2.0", "id": None, "error": {"code": -32600, "message": "Invalid Request"}}
    ),
    "an array of one error without id": faulty.answer_document(
        lambda _: [{"jsonrpc": "2.0", "id": None, "error": {"code": -32000, "message": "batch too large"}}]
    ),
    "one error under the first id": faulty.answer_document(
        lambda asked: [
            {"jsonrpc": "2.0", "id": asked[0]["id"], "error": {"code": -32600, "message": "batch too large"}}
        ]
    ),
    "an error for each": faulty.refuse(-32005, "maximum batch size is 2"),
}


@pytest.mark.parametrize("name", REFUSALS)
@pytest.mark.parametrize("items_max", [1, 2])
async def test_a_refused_size_is_halved_until_it_fits(server: FaultyServer, name: str, items_max: int) -> None:
    """Goal: RPC-9, split when a provider refuses. Method: each way to refuse; then again, having learned."""
    server.otherwise = at_most(items_max, REFUSALS[name])
    async with open_endpoint(server) as asked:
        assert await asked.ask_many(QUESTIONS) == list(range(1, 8))
        server.requests.clear()
        assert await asked.ask_many(QUESTIONS) == list(range(1, 8))
        assert max(sizes(server)) == items_max


async def test_answers_too_large_together_are_asked_apart(server: FaultyServer) -> None:
    """Goal: geth's limit on the answer's size is met without asking again for what came. Method: its answer."""

    async def behave(request: Request) -> None:
        answers: list[dict[str, Any]] = []
        for place, call in enumerate(request.calls):
            too_large = {"code": -32003, "message": "response too large"}
            honest = {"result": hex(int(call["params"][0], 16))}
            answers.append({"jsonrpc": "2.0", "id": call["id"]} | (honest if place < 3 else {"error": too_large}))
        await request.respond_json(answers if request.is_batch else answers[0])

    server.otherwise = behave
    async with open_endpoint(server) as asked:
        assert await asked.ask_many(QUESTIONS) == list(range(1, 8))
        assert sizes(server) == [7, 4, 1]
        await asked.ask_many(QUESTIONS)
        assert sizes(server)[3] == 7, "large answers are no lesson about the number of questions"


async def test_a_refusal_that_stays_is_the_answer(server: FaultyServer) -> None:
    """Goal: halving ends. Method: a server that refuses every size."""
    server.otherwise = faulty.answer_body(b"", status=413)
    async with open_endpoint(server) as asked:
        outcomes = await asked.ask_many(QUESTIONS)
    assert reasons(outcomes) == [HttpStatus(413)] * 7
    assert len(sizes(server)) <= 2 * len(QUESTIONS)


async def test_another_refusal_of_all_is_everyones_answer(server: FaultyServer) -> None:
    """Goal: a rate limit is no reason to send more requests. Method: one error for all that names no size."""
    server.behave(
        faulty.answer_document(
            lambda _: {"jsonrpc": "2.0", "id": None, "error": {"code": -32005, "message": "daily limit reached"}}
        )
    )
    async with open_endpoint(server) as asked:
        outcomes = await asked.ask_many(QUESTIONS)
    assert [outcome.code for outcome in outcomes if isinstance(outcome, RpcRefused)] == [-32005] * 7
    assert len(sizes(server)) == 1


async def test_one_deadline_covers_a_batch_and_its_parts(server: FaultyServer) -> None:
    """Goal: refusing slowly cannot stretch the time. Method: refuse a size, answer a part, hang on the next."""
    server.behave(REFUSALS["413"], HONEST, faulty.hang)
    async with open_endpoint(server, deadline_seconds=1) as asked:
        with trio.fail_after(3):
            outcomes = await asked.ask_many(QUESTIONS)
    assert outcomes[:4] == [1, 2, 3, 4]
    assert reasons(outcomes[4:]) == [DeadlinePassed(1, "headers")] * 3


async def test_a_write_is_never_in_a_batch(server: FaultyServer) -> None:
    """Goal: RPC-1. Method: a broadcast among reads is our own mistake, and nothing is sent."""
    async with open_endpoint(server) as asked:
        with pytest.raises(ValueError, match="asked alone"):
            await asked.ask_many([*QUESTIONS, methods.send_raw_transaction(b"\x02")])
    assert server.requests == []


async def test_a_cancelled_batch_is_counted_and_leaves_nothing(server: FaultyServer) -> None:
    """Goal: giving up costs nothing. Method: cancel while a batch hangs; then ask it again."""
    server.behave(faulty.hang)
    async with open_endpoint(server) as asked:
        with trio.move_on_after(0.1) as scope:
            await asked.ask_many(QUESTIONS)
        assert scope.cancelled_caught
        assert asked.stats.outcomes["eth_getBalance", "cancelled"] == 7
        server.otherwise = HONEST
        assert await asked.ask_many(QUESTIONS) == list(range(1, 8))
        await until(lambda: server.connections_open == 1)
