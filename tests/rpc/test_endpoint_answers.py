"""What is an answer and no fault (RPC-4), as it comes through a whole exchange."""

from __future__ import annotations

from typing import Any

import pytest
import trio
import trio.testing

from rpc import methods
from rpc.endpoint import Endpoint
from rpc.errors import EndpointFault, Reverted, RpcRefused
from rpc.methods import CallRequest
from rpc.observation import Observation
from tests.rpc import examples
from tests.rpc import faulty_server as faulty
from tests.rpc.faulty_server import CHAIN_ID, FaultyServer, faulty_server
from tests.rpc.test_reverts import USER_ERROR
from tests.waiting import until

CALL = methods.call(CallRequest(b"\x11" * 20, b"\x22" * 20), "latest")


async def test_null_is_an_answer(server: FaultyServer) -> None:
    """Goal: a receipt not there yet is None, no fault. Method: null, then the receipt."""
    server.behave(faulty.answer(None), faulty.answer(examples.receipt()))
    async with Endpoint.open(server.url, chain_id=CHAIN_ID) as asked:
        assert await asked.ask(methods.transaction_receipt(b"\xab" * 32)) is None
        receipt = await asked.ask(methods.transaction_receipt(b"\xab" * 32))
        assert receipt is not None
        assert receipt.succeeded


async def test_a_revert_is_an_answer_with_its_reason(server: FaultyServer) -> None:
    """Goal: a revert says why, with its data. Method: geth's answer."""
    server.behave(faulty.refuse(3, "execution reverted: user error", "0x" + USER_ERROR.hex()))
    async with Endpoint.open(server.url, chain_id=CHAIN_ID) as asked:
        with pytest.raises(Reverted) as caught:
            await asked.ask(CALL)
    assert (caught.value.data, caught.value.reason, caught.value.code) == (USER_ERROR, "user error", 3)
    assert (caught.value.endpoint, caught.value.method) == (server.url, "eth_call")


@pytest.mark.parametrize(
    ("code", "message", "data", "status"),
    [
        (-32000, "nonce too low: next nonce 5, tx nonce 4", None, 200),
        (-32602, "invalid argument 0", None, 200),
        (3, "Unknown block", None, 400),  # Alchemy: the code of a revert, but none (eRPC PR#999)
        (-32000, "already known", None, 400),  # chainlink PR#12870
        (-32601, "method not found", None, 404),
        (-32000, "failed", {"data": {"deep": []}}, 200),
    ],
)
async def test_a_refusal_is_an_answer(server: FaultyServer, code: int, message: str, data: object, status: int) -> None:
    """Goal: the caller learns code, words and data, also under a bad status. Method: what nodes answer."""
    server.behave(faulty.refuse(code, message, data, status=status))
    async with Endpoint.open(server.url, chain_id=CHAIN_ID) as asked:
        with pytest.raises(RpcRefused) as caught:
            await asked.ask(CALL)
    assert type(caught.value) is RpcRefused
    assert (caught.value.code, caught.value.message, caught.value.data) == (code, message, data)


async def test_an_error_before_our_id_was_read_is_a_refusal(server: FaultyServer) -> None:
    """Goal: a gateway's error without an id still says why. Method: id null, under 200 and under 400."""
    document = {"jsonrpc": "2.0", "id": None, "error": {"code": -32600, "message": "Invalid request"}}
    server.behave(*(faulty.answer_document(lambda _: document, status=status) for status in (200, 400)))
    async with Endpoint.open(server.url, chain_id=CHAIN_ID) as asked:
        for _ in range(2):
            with pytest.raises(RpcRefused, match="code -32600: Invalid request"):
                await asked.ask(methods.block_number())


async def test_result_bytes_are_never_taken_for_a_revert(server: FaultyServer) -> None:
    """Goal: a contract may return any bytes. Method: a result that looks like Error(string)."""
    server.behave(faulty.answer("0x" + USER_ERROR.hex()))
    async with Endpoint.open(server.url, chain_id=CHAIN_ID) as asked:
        assert await asked.ask(CALL) == USER_ERROR


async def test_a_nodes_words_are_fit_to_be_logged(server: FaultyServer) -> None:
    """Goal: no answer forges log lines or floods them. Method: control characters, surrogates, a megabyte."""
    server.behave(
        faulty.refuse(-32000, "first\nsecond\x1b[2J\ud800" + "x" * 1_000_000),
        faulty.refuse(
            3, "execution reverted", "0x08c379a0" + "20".zfill(64) + "04".zfill(64) + "610a1b62".ljust(64, "0")
        ),
    )
    async with Endpoint.open(server.url, chain_id=CHAIN_ID) as asked:
        with pytest.raises(RpcRefused) as caught:
            await asked.ask(methods.block_number())
        assert str(caught.value).isprintable()
        assert len(str(caught.value)) < 1200
        with pytest.raises(Reverted) as reverted:
            await asked.ask(CALL)
        assert reverted.value.reason == "a  b"


async def test_a_compressed_answer_is_read(server: FaultyServer) -> None:
    """Goal: what we ask to be compressed may be. Method: a gzipped answer, and the header that asked for it."""
    server.behave(faulty.gzipped(lambda asked: {"jsonrpc": "2.0", "id": asked["id"], "result": "0x10"}))
    async with Endpoint.open(server.url, chain_id=CHAIN_ID) as asked:
        assert await asked.ask(methods.block_number()) == 16
    assert server.requests[-1].headers["accept-encoding"] == "gzip"


async def test_connections_are_kept_alive(server: FaultyServer) -> None:
    """Goal: no handshake per question. Method: count the connections of twenty questions."""
    async with Endpoint.open(server.url, chain_id=CHAIN_ID) as asked:
        for _ in range(20):
            await asked.ask(methods.block_number())
    assert server.connections_total == 1


async def test_the_chain_is_checked_once_for_all_who_wait(server: FaultyServer) -> None:
    """Goal: RPC-6 costs a few requests, not one per question. Method: forty first questions at once."""
    async with Endpoint.open(server.url, chain_id=CHAIN_ID) as asked, trio.open_nursery() as tasks:
        for _ in range(40):
            tasks.start_soon(asked.ask, methods.block_number())
    first = server.requests[0].document["method"]
    assert first == "eth_chainId"
    # Once before the first question, then once or twice for all the connections opened by the rush.
    assert server.asked("eth_chainId") <= 4
    assert server.asked("eth_blockNumber") == 40


async def test_the_chain_is_checked_again_after_a_silent_reconnection() -> None:
    """Goal: RPC-6, each reconnection. Method: restart the server on its port as another chain, between two questions.

    No fault is seen in between: the idle connection is found closed and replaced by the pool.
    """
    async with faulty_server() as before:
        port = before.port
        endpoint = Endpoint.open(before.url, chain_id=CHAIN_ID)
        asked = await endpoint.__aenter__()
        assert await asked.ask(methods.block_number()) == 16
    async with faulty_server(port=port) as after:
        after.chain_id = 5
        with pytest.raises(EndpointFault, match="serves chain id 5"):
            await asked.ask(methods.block_number())
        after.chain_id = CHAIN_ID
        assert await asked.ask(methods.block_number()) == 16
    await endpoint.__aexit__(None, None, None)


async def test_the_chain_is_checked_before_anything_after_a_fault(server: FaultyServer) -> None:
    """Goal: after a broken connection a write waits for the check. Method: break, switch the chain, broadcast."""
    async with Endpoint.open(server.url, chain_id=CHAIN_ID) as asked:
        await asked.ask(methods.block_number())
        server.behave(faulty.close_at_once)
        with pytest.raises(EndpointFault):
            await asked.ask(methods.block_number())
        server.chain_id = 5
        with pytest.raises(EndpointFault, match="serves chain id 5"):
            await asked.ask(methods.send_raw_transaction(b"\x02"))
        assert server.asked("eth_sendRawTransaction") == 0


async def test_an_endpoint_that_hides_its_chain_is_not_used(server: FaultyServer) -> None:
    """Goal: no check, no use; and the caller's question is not said to be refused. Method: refuse eth_chainId."""
    server.scripts_chain_checks = True
    server.behave(faulty.refuse(-32601, "no such method"), faulty.answer("0x"), faulty.answer(None))
    async with Endpoint.open(server.url, chain_id=CHAIN_ID) as asked:
        for words in ("refused to tell its chain id", "hex quantity", "found null"):
            with pytest.raises(EndpointFault, match=words):
                await asked.ask(methods.block_number())
    assert server.asked("eth_blockNumber") == 0


async def test_a_checker_that_gives_up_does_not_take_the_others_with_it(server: FaultyServer) -> None:
    """Goal: one cancelled caller costs no other. Method: cancel the one that checks the chain for ten."""
    server.scripts_chain_checks = True
    honest = faulty.answer(lambda call: hex(CHAIN_ID) if call["method"] == "eth_chainId" else "0x10")
    server.behave(faulty.hang, *[honest] * 40)
    answers: list[int] = []

    leader = trio.CancelScope()
    async with Endpoint.open(server.url, chain_id=CHAIN_ID) as asked, trio.open_nursery() as tasks:

        async def lead() -> None:
            with leader:
                await asked.ask(methods.block_number())

        async def follow() -> None:
            answers.append(await asked.ask(methods.block_number()))

        tasks.start_soon(lead)
        await until(lambda: server.requests)
        for _ in range(10):
            tasks.start_soon(follow)
        await trio.testing.wait_all_tasks_blocked()
        leader.cancel()
    assert answers == [16] * 10


async def test_every_question_is_observed(server: FaultyServer) -> None:
    """Goal: scores and metrics see everything (RPC-10). Method: one question per outcome, alone and in a batch."""
    seen: list[Observation] = []
    async with Endpoint.open(server.url, chain_id=CHAIN_ID, observer=seen.append) as asked:
        await asked.ask(methods.block_number())
        server.behave(
            faulty.refuse(-32000, "no"),
            faulty.refuse(3, "execution reverted"),
            faulty.answer_body(b"", status=429),
            faulty.answer(lambda call: None if call["method"] == "eth_blockNumber" else "0x"),
            faulty.hang,
        )
        for call in (methods.block_number(), CALL, methods.block_number()):
            with pytest.raises((RpcRefused, EndpointFault)):
                await asked.ask(call)
        await asked.ask_many([CALL, methods.block_number()])
        with trio.move_on_after(0.05):
            await asked.ask(methods.block_number())
    outcomes = [(note.method, note.outcome, note.batch_items) for note in seen]
    assert outcomes == [
        ("eth_chainId", "answered", 1),
        ("eth_blockNumber", "answered", 1),
        ("eth_blockNumber", "refused", 1),
        ("eth_call", "reverted", 1),
        ("eth_blockNumber", "HttpStatus", 1),
        ("eth_call", "answered", 2),
        ("eth_blockNumber", "Malformed", 2),
        ("eth_blockNumber", "cancelled", 1),
    ]
    assert all(note.seconds >= 0 and note.endpoint == server.url for note in seen)
    assert seen[-1].seconds >= 0.05
    assert asked.stats.requests == len(seen)
    assert asked.stats.outcomes["eth_blockNumber", "HttpStatus"] == 1


def ids_of(server: FaultyServer) -> list[Any]:
    return [call["id"] for request in server.requests for call in request.calls]


async def test_ids_are_never_used_twice(server: FaultyServer) -> None:
    """Goal: an answer to an earlier question cannot pass for one to a later. Method: the ids of many questions."""
    async with Endpoint.open(server.url, chain_id=CHAIN_ID, batch_items_max=3) as asked:
        for _ in range(3):
            await asked.ask(methods.block_number())
            await asked.ask_many([methods.block_number()] * 5)
    ids = ids_of(server)
    assert len(set(ids)) == len(ids)
