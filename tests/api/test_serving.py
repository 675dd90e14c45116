"""Serving: addresses, stops, and clients that misbehave."""

from __future__ import annotations

import contextlib
import logging
import random
import socket

import psutil
import pytest
import trio

from tayho.api import connections
from tayho.api.connections import HEADER_BYTES_MAX
from tayho.api.readiness import Readiness
from tayho.api.serving import GRACE_SECONDS, BindRefused, listening
from tayho.config import Bind
from tayho.refusals import EnvironmentRefused
from tests.api.probing import answer_of, served
from tests.waiting import until


async def never() -> Readiness:
    await trio.sleep_forever()
    return Readiness()


async def test_an_address_in_use_is_named():
    """Goal: one clear line. Method: listen on a port that somebody has."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(BindRefused) as caught:
            async with listening(Bind("127.0.0.1", port)):
                pass
    assert isinstance(caught.value, EnvironmentRefused)
    assert caught.value.problems == (f"HTTP_BIND: cannot listen on 127.0.0.1:{port}: Address already in use",)


@pytest.mark.parametrize("host", ["192.0.2.1", "no-such-host.invalid", "2001:db8::1"])
async def test_an_address_of_another_machine_is_named(host):
    """Goal: every failure to bind is the same refusal. Method: foreign addresses and an unknown name."""
    with pytest.raises(BindRefused, match="HTTP_BIND: cannot listen on"):
        async with listening(Bind(host, 0)):
            pass


async def test_the_address_is_free_again_afterwards():
    """Goal: a restart binds at once. Method: serve, ask, stop, listen on the same port; no socket stays behind."""
    before = psutil.Process().num_fds()
    async with served() as face:
        assert (await face.ask("/healthz")).status == 200
        bind = face.bind
    async with listening(bind) as again:
        assert again.bind == bind
    await until(lambda: psutil.Process().num_fds() <= before, what="every descriptor is closed")


async def test_a_request_under_way_is_answered_before_the_stop():
    """Goal: a rolling update fails no probe. Method: stop while a check is being waited for."""
    asked, go_on = trio.Event(), trio.Event()

    async def readiness() -> Readiness:
        asked.set()
        await go_on.wait()
        return Readiness()

    statuses: list[int] = []
    async with served(readiness=readiness) as face, trio.open_nursery() as probes:

        async def probe() -> None:
            statuses.append((await face.ask("/readyz")).status)

        probes.start_soon(probe)
        await asked.wait()
        face.stop.set()
        await trio.testing.wait_all_tasks_blocked()
        go_on.set()
    assert statuses == [200]


async def test_idle_connections_do_not_hold_up_the_stop():
    """Goal: a collector's kept connection costs no drain time. Method: stop with idle and half-sent ones open."""
    async with served() as face:
        streams = [await trio.open_tcp_stream(face.bind.host, face.bind.port) for _ in range(3)]
        await streams[1].send_all(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        assert answer_of(await streams[1].receive_some()).status == 200
        await streams[2].send_all(b"GET /heal")
        started = trio.current_time()
    assert trio.current_time() - started < 5
    for stream in streams:
        await stream.aclose()


async def test_a_cancelled_server_leaves_no_descriptor():
    """Goal: a crash elsewhere ends the server too. Method: cancel around it, with a request under way."""
    before = psutil.Process().num_fds()
    with trio.CancelScope() as scope:
        async with served(readiness=never) as face:
            stream = await trio.open_tcp_stream(face.bind.host, face.bind.port)
            await stream.send_all(b"GET /readyz HTTP/1.1\r\nHost: x\r\n\r\n")
            await trio.testing.wait_all_tasks_blocked()
            scope.cancel()
            await trio.sleep_forever()
    await stream.aclose()
    await until(lambda: psutil.Process().num_fds() <= before, what="every descriptor is closed")


REQUEST = b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
HUNGRY = b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"
MISBEHAVED = {
    "nothing": b"",
    "noise": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 40,
    "no request": b"hello\r\n\r\n",
    "no host": b"GET /healthz HTTP/1.1\r\nConnection: close\r\n\r\n",
    "two hosts": REQUEST + b"Host: y\r\n\r\n",
    "old version": b"GET /healthz HTTP/0.9\r\n\r\n",
    "http/1.0": b"GET /healthz HTTP/1.0\r\n\r\n",
    "absolute": b"GET http://evil/healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
    "connect": b"CONNECT db:5432 HTTP/1.1\r\nHost: x\r\n\r\n",
    "options": b"OPTIONS * HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
    "no slash": b"GET healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
    "bad escape": b"GET /%zz%c3 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
    "high bytes": b"GET /\xff\xfe HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
    "query noise": b"GET /healthz?%ff=%fe&&==;&a[]=1 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
    "cookie noise": REQUEST + b"Cookie: \xff=;;=\r\n\r\n",
    "two lengths": REQUEST + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\nab",
    "length and chunks": REQUEST + b"Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "bad chunk": REQUEST + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
    "unknown coding": REQUEST + b"Transfer-Encoding: gzip\r\n\r\n",
    "body": REQUEST + b"Content-Length: 100000\r\n\r\n" + b"x" * 100_000,
    "expect": REQUEST + b"Expect: 100-continue\r\nContent-Length: 5\r\n\r\nhello",
    "large header": REQUEST + b"X: " + b"y" * 2 * HEADER_BYTES_MAX + b"\r\n\r\n",
    "endless headers": REQUEST + b"X: y\r\n" * 20_000,
    "websocket": b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
    "websocket without a key": b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
    "h2c upgrade": b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n"
    b"HTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\n\r\n",
    "h2c upgrade broken": b"GET /healthz HTTP/1.1\r\nHost: x\r\nUpgrade: h2c\r\nHTTP2-Settings: !!!\r\n\r\n",
    "h2 preface": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00",
    "h2 noise": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(range(256)),
    "h2 frame too large": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\xff\xff\xff\x01\x05\x00\x00\x00\x01",
    "pipelined": b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n" * 5 + REQUEST + b"\r\n",
}


@pytest.mark.parametrize("name", MISBEHAVED)
async def test_a_misbehaving_client_hurts_only_itself(name, caplog):
    """Goal: no bytes end the server or are answered with an error of ours. Method: send them, then ask as usual."""
    async with served() as face:
        received = b""
        with trio.move_on_after(1.5):
            # The server may close while the client still sends.
            with contextlib.suppress(trio.BrokenResourceError):
                received = await face.exchange(MISBEHAVED[name])
        assert received[:12] not in (b"HTTP/1.1 500", b"HTTP/1.1 503"), received
        assert b"Traceback" not in received
        assert (await face.ask("/healthz")).status == 200
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


async def test_random_bytes_hurt_nobody():
    """Goal: the same for what nobody thought of. Method: requests with random bytes changed, from a fixed seed."""
    rng = random.Random(5)
    seeds = list(MISBEHAVED.values())
    async with served() as face:
        for _ in range(150):
            octets = bytearray(rng.choice(seeds)[:4096])
            for _ in range(rng.randrange(1, 6)):
                at = rng.randrange(len(octets) + 1)
                octets[at : at + rng.randrange(2)] = rng.randbytes(rng.randrange(1, 4))
            with trio.move_on_after(0.05):
                try:
                    received = await face.exchange(bytes(octets))
                except (trio.BrokenResourceError, OSError):
                    continue
                assert received[:12] not in (b"HTTP/1.1 500", b"HTTP/1.1 503"), (bytes(octets), received)
        assert (await face.ask("/healthz")).status == 200


async def test_a_client_that_never_reads_does_not_hold_up_the_stop():
    """Goal: the process ends whatever its clients do. Method: ask for far more than the buffers hold, read nothing."""
    page = b"x" * 1_000_000
    async with served(render=lambda: page) as face:
        stream = await trio.open_tcp_stream(face.bind.host, face.bind.port)
        await stream.send_all(HUNGRY * 20)
        await trio.testing.wait_all_tasks_blocked(0.2)
        assert (await face.ask("/healthz")).status == 200
        started = trio.current_time()
    assert trio.current_time() - started < GRACE_SECONDS + 2
    await stream.aclose()


async def test_a_client_that_never_reads_does_not_hold_up_a_cancellation():
    """Goal: the same where a crash elsewhere cancels the server. Method: as above, with a cancelled scope."""
    page = b"x" * 1_000_000
    started = 0.0
    with trio.CancelScope() as scope:
        async with served(render=lambda: page) as face:
            stream = await trio.open_tcp_stream(face.bind.host, face.bind.port)
            await stream.send_all(HUNGRY * 20)
            await trio.testing.wait_all_tasks_blocked(0.2)
            started = trio.current_time()
            scope.cancel()
            await trio.sleep_forever()
    assert trio.current_time() - started < 2
    await stream.aclose()


async def test_connections_are_bounded_in_number(monkeypatch):
    """Goal: the face takes no descriptors from the work. Method: a bound of three, a fourth client, a free place."""
    monkeypatch.setattr(connections, "CONNECTIONS_MAX", 3)
    async with served() as face:
        held = [await trio.open_tcp_stream(face.bind.host, face.bind.port) for _ in range(3)]
        for stream in held:
            await stream.send_all(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
            assert answer_of(await stream.receive_some()).status == 200
        with pytest.raises(trio.BrokenResourceError):
            assert await face.exchange(REQUEST + b"\r\n") == b""
            raise trio.BrokenResourceError
        await held.pop().aclose()

        async def is_served_again() -> bool:
            try:
                return bool(await face.exchange(REQUEST + b"\r\n"))
            except trio.BrokenResourceError:
                return False

        await until(is_served_again, what="the place is free again")
        for stream in held:
            await stream.aclose()


async def test_a_connection_ends_at_its_age(monkeypatch):
    """Goal: a slow sender holds no place for ever. Method: a short age, and one byte of a request at a time."""
    monkeypatch.setattr(connections, "CONNECTION_SECONDS_MAX", 0.3)
    async with served() as face:
        started = trio.current_time()
        async with await trio.open_tcp_stream(face.bind.host, face.bind.port) as stream:
            with pytest.raises(trio.BrokenResourceError):
                while True:
                    await stream.send_all(b"G")
                    await trio.sleep(0.01)
        assert 0.2 < trio.current_time() - started < 3
        assert (await face.ask("/healthz")).status == 200


async def test_an_error_in_one_connection_stays_in_it(monkeypatch):
    """Goal: no defect of the protocol machine ends the process. Method: make it raise in one connection of two.

    Hypercorn does so by itself for a broken chunk, but only where two of its tasks meet.
    """
    failing = [True]
    reads = connections._Connection._read_data

    async def read_data(self) -> None:
        if failing:
            failing.clear()
            raise trio.BusyResourceError("another task is currently sending data")
        await reads(self)

    async with served() as face, await trio.open_tcp_stream(face.bind.host, face.bind.port) as kept:
        await kept.send_all(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        received = b""
        while b"alive" not in received:
            received += await kept.receive_some()
        monkeypatch.setattr(connections._Connection, "_read_data", read_data)
        assert await face.exchange(b"") == b""
        assert not failing
        await kept.send_all(REQUEST + b"\r\n")
        assert b"200" in await kept.receive_some()


async def test_a_client_that_never_reads_is_cut_off_at_its_age(monkeypatch):
    """Goal: its place and its pages are given back. Method: a short age, and a sending that no cancellation ends."""
    monkeypatch.setattr(connections, "CONNECTION_SECONDS_MAX", 0.5)
    before = psutil.Process().num_fds()
    page = b"x" * 1_000_000
    async with served(render=lambda: page) as face:
        stream = await trio.open_tcp_stream(face.bind.host, face.bind.port)
        await stream.send_all(HUNGRY * 20)
        # The listener, and both ends of the connection.
        await until(lambda: psutil.Process().num_fds() == before + 3, what="the connection was taken")
        await until(lambda: psutil.Process().num_fds() == before + 2, what="the connection is closed")
        await stream.aclose()
    await until(lambda: psutil.Process().num_fds() <= before)
