"""A pool under cancellation and over ten thousand races: nothing is left behind."""

from __future__ import annotations

import gc
import random
import tracemalloc

import trio
import trio.testing

from rpc import methods
from rpc.hedging import HedgeRules
from rpc.pool import ReadPool
from tests.nursery.cancelling import cancelled_at_each_await
from tests.rpc import faulty_server as faulty
from tests.rpc.faulty_server import FaultyServer, Request
from tests.rpc.pools import pool_of, servers
from tests.rpc.test_cancellation import open_sockets
from tests.waiting import until

HEAD = methods.block_number()
PINNED = methods.balance(b"\x01" * 20, 16)
READS = 10_000
IN_FLIGHT = 16
LEAK_BYTES_MAX = 2_000_000

EAGER = HedgeRules(seconds_min=0, seconds_cold=0, seconds_max=0, extra_share=1, burst_max=READS)


async def is_whole(pool: ReadPool, asked: list[FaultyServer]) -> None:
    """It answers, nothing runs for a caller that has gone, and no connection but idle ones is held."""
    for server in asked:
        server.otherwise = faulty.answer("0x10")
    for _ in range(3):
        assert await pool.ask(HEAD) == 16
    assert await pool.ask_many([HEAD, PINNED]) == [16, 16]
    for status in pool.status():
        assert status.is_live


async def test_cancelled_at_each_await() -> None:
    """Goal: no await of a hedged, shared or batched question loses anything. Method: the first endpoint hangs, the
    second answers; cancel at the first, second, … await, then ask again and look for what is left."""
    sockets_before = open_sockets()
    async with servers(2) as asked, pool_of(asked, hedges=HedgeRules(0.01, 0.01, 0.01, burst_max=10_000)) as pool:
        for ask in (lambda: pool.ask(HEAD), lambda: pool.ask(PINNED), lambda: pool.ask_many([HEAD, PINNED])):
            runs = 0
            async for _ in cancelled_at_each_await(ask):
                runs += 1
                await is_whole(pool, asked)
                asked[0].otherwise = faulty.hang
            assert runs >= 2
    await until(lambda: open_sockets() == sockets_before, what="every socket to be closed")


async def test_ten_thousand_hedged_reads_leave_no_task_socket_or_memory_behind() -> None:
    """Goal: races do not add up. Method: every read is hedged at once, losers are cancelled at any stage; tasks,
    sockets and memory after a warm-up of a tenth and at the end."""
    chance = random.Random(20260414)

    async def sometimes_slow(request: Request) -> None:
        if chance.random() < 0.2:
            await trio.sleep(0.01)
        await faulty.answer("0x10")(request)

    sockets_before = open_sockets()
    async with servers(2) as asked:
        for server in asked:
            server.otherwise = sometimes_slow
        async with pool_of(asked, hedges=EAGER) as pool:
            await _read(pool, asked, READS // 10)
            tasks_before = trio.lowlevel.current_statistics().tasks_living
            tracemalloc.start()
            gc.collect()
            memory_before, _ = tracemalloc.get_traced_memory()
            await _read(pool, asked, READS)
            await until(lambda: trio.lowlevel.current_statistics().tasks_living <= tasks_before + 2 * IN_FLIGHT)
            gc.collect()
            memory_after, _ = tracemalloc.get_traced_memory()
            tracemalloc.stop()
            assert sum(status.hedges_fired for status in pool.status()) > READS / 2
            assert memory_after - memory_before < LEAK_BYTES_MAX
            assert max(server.connections_open for server in asked) <= 2 * IN_FLIGHT
        await until(lambda: all(server.connections_open == 0 for server in asked))
    await until(lambda: open_sockets() == sockets_before, what="every socket to be closed")


async def _read(pool: ReadPool, asked: list[FaultyServer], reads: int) -> None:
    left = iter(range(reads))

    async def reader() -> None:
        for _ in left:
            assert await pool.ask(HEAD) == 16

    async with trio.open_nursery() as readers:
        for _ in range(IN_FLIGHT):
            readers.start_soon(reader)
    for server in asked:
        # What the servers remember is not the pool's.
        server.requests.clear()
