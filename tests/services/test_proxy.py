"""The fault proxy: each of its faults, on an echo and on the real servers."""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress

import pytest
import trio

from nursery.asyncio_bridge import open_bridge
from storage.connection import Connection
from storage.errors import CommitUnknown, Refused, ReplyLost, StoreUnavailable
from storage.redis_client import open_redis
from storage.server import connect
from tests.services.proxy import FaultProxy, Way, fault_proxy
from tests.services.redis import ask
from tests.waiting import until

END = b"the end"
HTTP_ANSWER = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"


@asynccontextmanager
async def _before(
    answer: Callable[[bytes], bytes], scheme: str = "tcp"
) -> AsyncGenerator[tuple[FaultProxy, trio.SocketStream, list[bytes]]]:
    """A proxy before a server that answers each chunk, a client of it, and what the server has had; last the end."""
    had: list[bytes] = []

    async def serve(stream: trio.SocketStream) -> None:
        with suppress(trio.BrokenResourceError):
            async for chunk in stream:
                had.append(chunk)
                await stream.send_all(answer(chunk))
        had.append(END)

    async with trio.open_nursery() as serving:
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        await serving.start(trio.serve_listeners, serve, listeners)
        url = f"{scheme}://127.0.0.1:{listeners[0].socket.getsockname()[1]}"
        with trio.fail_after(5):
            async with fault_proxy(url) as proxy, await trio.open_tcp_stream("127.0.0.1", proxy.port) as client:
                yield proxy, client, had
        serving.cancel_scope.cancel()


@asynccontextmanager
async def _echo() -> AsyncGenerator[tuple[FaultProxy, trio.SocketStream, list[bytes]]]:
    """As `_before`, with an echo that was tried once."""
    async with _before(lambda chunk: chunk) as (proxy, client, had):
        await client.send_all(b"first")
        assert await client.receive_some() == b"first"
        yield proxy, client, had


async def _is_silent(client: trio.SocketStream) -> bool:
    with trio.move_on_after(0.05):
        await client.receive_some()
        return False
    return True


async def test_what_is_dropped_is_gone_and_the_connection_stays() -> None:
    """Goal: a black hole, one way and both. Method: drop answers, then requests; the server has what was let through,
    and neither side hears of an end."""
    async with _echo() as (proxy, client, had):
        proxy.drop(Way.ANSWERS)
        await client.send_all(b"second")
        await until(lambda: had == [b"first", b"second"])
        assert await _is_silent(client)
        proxy.drop(Way.REQUESTS)
        await client.send_all(b"third")
        assert await _is_silent(client)
        assert had == [b"first", b"second"]


@pytest.mark.parametrize("way", Way)
async def test_a_delay_holds_one_way(way: Way) -> None:
    """Goal: latency. Method: an exchange takes the delay once; without it, it does not."""
    async with _echo() as (proxy, client, _):
        for seconds in (0.2, 0):
            proxy.delay(way, seconds)
            began_at = trio.current_time()
            await client.send_all(b"second")
            await client.receive_some()
            assert (trio.current_time() - began_at >= 0.2) is (seconds > 0)


async def test_a_reset_is_an_error_and_a_cut_is_an_end() -> None:
    """Goal: the two ways in which a connection ends. Method: RST raises at the client; a cut ends the stream."""
    async with _echo() as (proxy, client, had):
        proxy.reset()
        with pytest.raises(trio.BrokenResourceError):
            await client.receive_some()
    async with _echo() as (proxy, client, had):
        proxy.cut()
        assert await client.receive_some() == b""
        await until(lambda: had[-1] == END)


async def test_a_half_closed_way_ends_and_the_other_goes_on() -> None:
    """Goal: shutdown of one direction. Method: the client sees the end, and the server still has its requests."""
    async with _echo() as (proxy, client, had):
        proxy.half_close(Way.ANSWERS)
        assert await client.receive_some() == b""
        await client.send_all(b"second")
        await until(lambda: had == [b"first", b"second"])
    async with _echo() as (proxy, client, had):
        proxy.half_close(Way.REQUESTS)
        await until(lambda: had == [b"first", END])


async def test_what_was_frozen_comes_when_it_thaws_and_a_refusal_is_an_end() -> None:
    """Goal: a hang, and a server that is down. Method: freeze, thaw; then refuse a new connection."""
    async with _echo() as (proxy, client, _):
        proxy.freeze()
        await client.send_all(b"second")
        assert await _is_silent(client)
        proxy.thaw()
        assert await client.receive_some() == b"second"
        proxy.refusing = True
        async with await trio.open_tcp_stream("127.0.0.1", proxy.port) as refused:
            assert await refused.receive_some() == b""


@pytest.mark.parametrize("executed", [True, False])
async def test_the_nth_request_with_a_needle_is_lost(executed: bool) -> None:
    """Goal: a needle and a count, where no protocol is known. Method: two requests pass, the third does not."""
    async with _echo() as (proxy, client, had):
        (proxy.swallow_answer_to if executed else proxy.swallow_request)(b"needle", nth=2)
        for request in (b"a needle", b"hay"):
            await client.send_all(request)
            assert await client.receive_some() == request
        assert not proxy.sprung
        await client.send_all(b"needles")
        assert await client.receive_some() == b""
        assert proxy.sprung
        assert (b"needles" in had) is executed


async def test_an_http_request_is_whole_before_it_is_matched() -> None:
    """Goal: HTTP by needle and by label. Method: a body in two pieces with the needle across them; then the second
    request to a path."""
    async with _before(lambda _: HTTP_ANSWER, "http") as (proxy, client, had):
        proxy.swallow_request(b"eth_sendRaw")
        await client.send_all(b"POST /rpc HTTP/1.1\r\nContent-Length: 11\r\n\r\neth_")
        await client.send_all(b"sendRaw")
        assert await client.receive_some() == b""
        assert (proxy.sprung, proxy.seen) == (True, {"POST /rpc": 1})
        await until(lambda: had == [END])
    async with _before(lambda _: HTTP_ANSWER, "http") as (proxy, client, had):
        proxy.swallow_answer_to("POST /rpc", nth=2)
        chunked = b"POST /rpc HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n5\r\n0\r\n\r\n\r\n0\r\n\r\n"
        await client.send_all(chunked)
        assert await client.receive_some() == HTTP_ANSWER
        await client.send_all(chunked)
        assert await client.receive_some() == b""
        await until(lambda: had == [chunked, chunked, END])


@pytest.mark.parametrize("executed", [True, False])
async def test_one_command_of_a_redis_pipeline_is_hit(redis_url: str, executed: bool) -> None:
    """Goal: the replies before it are had, its own is not. Method: four INCR and one GET in one pipeline, of which the
    third INCR is hit; what Redis executed is counted."""
    async with open_bridge(), fault_proxy(redis_url) as proxy, open_redis(proxy.url_for(redis_url)) as server:
        (proxy.swallow_answer_to if executed else proxy.swallow_request)("INCR", nth=3)
        replies = await server.ask([("INCR", "n"), ("GET", "n"), ("INCR", "n"), ("INCR", "n"), ("INCR", "n")])
        assert proxy.sprung
        assert replies[:3] == [1, "1", 2]
        assert [type(reply) for reply in replies[3:]] == [ReplyLost, ReplyLost]
        # In one write they went out, and in one they arrived: after the swallowed one nothing does.
        await until(lambda: _value(redis_url) == ("4" if executed else "2"))


async def test_a_second_fault_waits_for_the_first(redis_url: str) -> None:
    """Goal: a fault of what follows a fault. Method: lose the answer to a GET after that of an INCR."""
    async with open_bridge(), fault_proxy(redis_url) as proxy, open_redis(proxy.url_for(redis_url)) as server:
        proxy.swallow_answer_to("INCR")
        proxy.swallow_answer_to("GET", then=True)
        assert await server.ask([("GET", "n")]) == [None]
        assert isinstance((await server.ask([("INCR", "n")]))[0], ReplyLost)
        assert not proxy.sprung
        assert isinstance((await server.ask([("GET", "n")]))[0], ReplyLost)
        assert proxy.sprung


@pytest.mark.parametrize("executed", [True, False])
@pytest.mark.parametrize("arguments", [(), (1,)], ids=["simple", "extended"])
async def test_the_nth_statement_of_postgresql_is_hit(
    empty_database_url: str, executed: bool, arguments: tuple[int, ...]
) -> None:
    """Goal: statements by their text, also where only their name is sent any more. Method: a prepared INSERT, and one
    sent as a simple query, three times; the third is hit, and counted in the table."""
    insert = f"INSERT INTO t VALUES ({'$1::int' if arguments else '1'})"

    async def attempt(connection: Connection) -> None:
        await connection.execute(insert, *arguments)

    async with open_bridge(), fault_proxy(empty_database_url) as proxy:
        async with connect(proxy.url_for(empty_database_url), application_name="tests") as raw:
            connection = Connection(raw, in_transaction=False)
            await connection.execute("CREATE TABLE t (n int)")
            (proxy.swallow_answer_to if executed else proxy.swallow_request)(insert, nth=3)
            for _ in range(2):
                await attempt(connection)
            with pytest.raises(CommitUnknown):
                await attempt(connection)
        assert proxy.sprung
        assert proxy.seen[insert] == 3
        assert proxy.seen[f"prepare {insert}"] == len(arguments)
        await _counted(empty_database_url, 3 if executed else 2)


async def test_a_refused_statement_leaves_the_turns_in_step(empty_database_url: str) -> None:
    """Goal: an error inside a turn is answered by its end, not by its first message. Method: a statement that cannot be
    prepared, one that fails when it runs, and then one whose answer is swallowed."""
    async with (
        open_bridge(),
        fault_proxy(empty_database_url) as proxy,
        connect(proxy.url_for(empty_database_url), application_name="tests") as raw,
    ):
        connection = Connection(raw, in_transaction=False)
        for refused, arguments in (("SELECT nothing_of_that_name", ()), ("SELECT 1 / $1::int", (0,))):
            with pytest.raises(Refused):
                await connection.fetch(refused, *arguments)
        assert await connection.fetchval("SELECT $1::int", 7) == 7
        proxy.swallow_answer_to("SELECT $1::int")
        with pytest.raises(StoreUnavailable):
            await connection.fetchval("SELECT $1::int", 7)
        assert proxy.sprung


def _value(url: str) -> str:
    """What `GET n` says, below the length that `ask` reads."""
    return ask(url, "EVAL", "\"return{ok=redis.call('GET','n')}\"", "0").removeprefix("+")


async def _counted(url: str, rows: int) -> None:
    async with connect(url, application_name="tests") as raw:
        connection = Connection(raw, in_transaction=False)

        async def counted() -> bool:
            return await connection.fetchval("SELECT count(*) FROM t") == rows

        await until(counted, what=f"{rows} rows")
