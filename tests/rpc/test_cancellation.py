"""Cancelled anywhere, an exchange leaves the pool whole and no socket behind."""

from __future__ import annotations

import gc
import random
from pathlib import Path

import pytest
import trio

from rpc import methods
from rpc.endpoint import Endpoint
from rpc.errors import EndpointFault
from tests.nursery.cancelling import cancelled_at_each_await
from tests.rpc import faulty_server as faulty
from tests.rpc.faulty_server import CHAIN_ID, FaultyServer, Request, faulty_server
from tests.rpc.tls import authority_and_server, trusting
from tests.waiting import until

STAGES = {
    "connect and send": faulty.hang,
    "headers": faulty.hang_in_headers,
    "body": faulty.hang_in_body,
    "dripping body": faulty.drip,
}


def open_sockets() -> int:
    """Sockets of this process, as the kernel counts them."""
    return sum("socket" in link_of(entry) for entry in Path("/proc/self/fd").iterdir())


def link_of(entry: Path) -> str:
    try:
        return str(entry.readlink())
    except OSError:
        return ""


async def is_whole(endpoint: Endpoint, server: FaultyServer, *, connections_max: int = 1) -> None:
    """Fifty questions are answered, and no connection is held but those that wait for the next."""
    for _ in range(50):
        assert await endpoint.ask(methods.block_number()) == 16
    await until(lambda: server.connections_open <= connections_max, what="broken connections to be closed")


async def answer_in_pieces(request: Request) -> None:
    """An honest answer with a pause before each piece, so that the client awaits at each."""
    body = b'{"jsonrpc":"2.0","id":%d,"result":"0x10"}' % request.document["id"]
    whole = faulty.head(200, {"content-length": str(len(body))}) + body
    for at in range(0, len(whole), 15):
        await request.send(whole[at : at + 15])
        for _ in range(3):
            await trio.lowlevel.checkpoint()


async def test_cancelled_at_each_await(server: FaultyServer) -> None:
    """Goal: no await of `ask` loses anything. Method: cancel at its first, second, … await, on a cold and a warm pool.

    The answer comes in pieces, so that connecting, sending, headers and body each have awaits of their own.
    """
    server.otherwise = answer_in_pieces
    sockets_before = open_sockets()
    cold = 0
    async for _ in cancelled_at_each_await(lambda: ask_once(server)):
        cold += 1
        await until(lambda: server.connections_open == 0, what="the connections of a cancelled question to be closed")
    assert cold > 20
    async with Endpoint.open(server.url, chain_id=CHAIN_ID) as endpoint:
        await endpoint.ask(methods.block_number())
        async for _ in cancelled_at_each_await(lambda: endpoint.ask(methods.block_number())):
            server.otherwise = faulty.answer("0x10")
            await is_whole(endpoint, server)
            server.otherwise = answer_in_pieces
    await until(lambda: open_sockets() == sockets_before, what="every socket to be closed")


async def ask_once(server: FaultyServer) -> None:
    async with Endpoint.open(server.url, chain_id=CHAIN_ID) as endpoint:
        await endpoint.ask(methods.block_number())


@pytest.mark.parametrize("stage", STAGES)
async def test_cancelled_while_the_server_hangs(server: FaultyServer, stage: str) -> None:
    """Goal: a hanging server holds nothing of ours. Method: cancel while it hangs at each stage; ask fifty times."""
    async with Endpoint.open(server.url, chain_id=CHAIN_ID, in_flight_max=2) as endpoint:
        await endpoint.ask(methods.block_number())
        for _ in range(5):
            asked = len(server.requests)
            server.behave(STAGES[stage])
            with trio.CancelScope() as scope:
                async with trio.open_nursery() as tasks:
                    tasks.start_soon(endpoint.ask, methods.block_number())
                    await until(lambda asked=asked: len(server.requests) > asked, what="the question to arrive")
                    await trio.testing.wait_all_tasks_blocked()
                    scope.cancel()
            await is_whole(endpoint, server)
    await until(lambda: server.connections_open == 0)


async def test_cancelled_in_the_tls_handshake() -> None:
    """Goal: a handshake that never ends leaks no socket. Method: a TCP server that only listens, cancelled and late."""
    sockets_before = open_sockets()
    closed = 0

    async def listen_only(stream: trio.SocketStream) -> None:
        nonlocal closed
        async with stream:
            while await stream.receive_some():
                pass
        closed += 1

    async with trio.open_nursery() as server:
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        port = listeners[0].socket.getsockname()[1]
        server.start_soon(trio.serve_listeners, listen_only, listeners)
        url = f"https://127.0.0.1:{port}"
        async with Endpoint.open(url, chain_id=CHAIN_ID, deadline_seconds=0.2) as endpoint:
            with trio.move_on_after(0.05):
                await endpoint.ask(methods.block_number())
            with pytest.raises(EndpointFault):
                await endpoint.ask(methods.block_number())
        await until(lambda: closed == 2, what="the server to see both connections closed")
        server.cancel_scope.cancel()
    gc.collect()
    assert open_sockets() == sockets_before


async def test_two_hundred_cancellations_at_random(server: FaultyServer) -> None:
    """Goal: nothing adds up over time. Method: many callers over few connections, each cancelled in a while."""
    chance = random.Random(20260301)
    server.otherwise = answer_in_pieces
    async with Endpoint.open(server.url, chain_id=CHAIN_ID, in_flight_max=4) as endpoint:

        async def ask_for_a_while(seconds: float) -> None:
            with trio.move_on_after(seconds):
                await endpoint.ask(methods.block_number())

        async with trio.open_nursery() as callers:
            for _ in range(200):
                callers.start_soon(ask_for_a_while, chance.uniform(0, 0.2))
        server.otherwise = faulty.answer("0x10")
        await is_whole(endpoint, server, connections_max=4)
    await until(lambda: server.connections_open == 0)


async def test_tls_connections_close_too() -> None:
    """Goal: the same over TLS. Method: cancel in the body of an answer over TLS, then ask again."""
    authority, context = authority_and_server()
    async with faulty_server(tls=context) as server:
        async with Endpoint.open(server.url, chain_id=CHAIN_ID, tls=trusting(authority)) as endpoint:
            await endpoint.ask(methods.block_number())
            server.behave(faulty.hang_in_body)
            with trio.move_on_after(0.1):
                await endpoint.ask(methods.block_number())
            await is_whole(endpoint, server)
        await until(lambda: server.connections_open == 0)
