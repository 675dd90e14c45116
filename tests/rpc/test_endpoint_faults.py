"""The fault matrix of one endpoint (RPC-8): every way to answer badly is a typed fault, and harms nothing after it."""

from __future__ import annotations

import socket
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest
import trio

from rpc import methods
from rpc.endpoint import Endpoint
from rpc.errors import (
    BodyTooLarge,
    ChainMismatch,
    DeadlinePassed,
    EndpointFault,
    EndpointUrlRefused,
    HttpStatus,
    Malformed,
    Reason,
    Transport,
    WrongChain,
)
from rpc.transport import HttpTransport, Progress
from rpc.urls import EndpointUrl
from tests.rpc import faulty_server as faulty
from tests.rpc.faulty_server import CHAIN_ID, Behaviour, FaultyServer, faulty_server
from tests.rpc.tls import authority_and_server, trusting
from tests.waiting import until

BYTES_MAX = 1_000_000
# Short where the test waits for it, long where a busy machine must not reach it.
DEADLINE_SECONDS = 0.7
PATIENT_SECONDS = 20

HEADERS = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"
ERROR = {"code": -32000, "message": "no"}


def spoilt(**changes: Any) -> Behaviour:
    """The honest answer to a single question, with members changed."""
    return faulty.answer_document(lambda asked: {"jsonrpc": "2.0", "id": asked["id"], "result": "0x10"} | changes)


def result(value: object) -> Behaviour:
    return spoilt(result=value)


def nested(depth: int) -> Callable[[Any], bytes]:
    def make(asked: Any) -> bytes:
        return b'{"jsonrpc":"2.0","id":%d,"result":' % asked["id"] + b"[" * depth + b"]" * depth + b"}"

    return make


def status(code: int, *, body: bytes = b"", **headers: str) -> Behaviour:
    return faulty.answer_body(
        body, status=code, headers={name.replace("_", "-"): text for name, text in headers.items()}
    )


async def hang_in_refusal(request: faulty.Request) -> None:
    await request.send(faulty.head(503, {"content-length": "100", "retry-after": "7"}) + b"busy")
    await request.hang()


LATE_IN_HEADERS = DeadlinePassed(DEADLINE_SECONDS, "headers")
LATE_IN_BODY = DeadlinePassed(DEADLINE_SECONDS, "body")

# What the endpoint does, and the reason the fault must carry: the whole reason, or its class and words of it.
FAULTS: dict[str, tuple[Behaviour, Reason | tuple[type[Reason], str]]] = {
    # Time
    "hangs before headers": (faulty.hang, LATE_IN_HEADERS),
    "hangs in headers": (faulty.hang_in_headers, LATE_IN_HEADERS),
    "hangs in the body": (faulty.hang_in_body, LATE_IN_BODY),
    "drips": (faulty.drip, LATE_IN_BODY),
    # Connection
    "closes without a word": (faulty.close_at_once, (Transport, "did not speak HTTP")),
    "closes in the body": (faulty.close_in_body, (Transport, "broke off")),
    "closes in the headers": (faulty.answer_raw(HEADERS), (Transport, "broke off")),
    "speaks no HTTP": (faulty.answer_raw(b"SSH-2.0-OpenSSH_9.6\r\n\r\n"), (Transport, "did not speak HTTP")),
    "has bad chunks": (
        faulty.answer_raw(HEADERS + b"transfer-encoding: chunked\r\n\r\nZZZ\r\n"),
        (Transport, "did not speak HTTP"),
    ),
    "has two lengths": (
        faulty.answer_raw(HEADERS + b"content-length: 1\r\ncontent-length: 2\r\n\r\n{}"),
        (Transport, "did not speak HTTP"),
    ),
    "has endless headers": (faulty.answer_raw(HEADERS + b"x: " + b"y" * 300_000), (Transport, "did not speak HTTP")),
    # HTTP status
    "500": (status(500, body=b"oops"), HttpStatus(500)),
    "503 with Retry-After": (status(503, retry_after="7"), HttpStatus(503, 7)),
    "429": (status(429), HttpStatus(429)),
    "429 with seconds": (status(429, retry_after="2"), HttpStatus(429, 2)),
    "429 with a past date": (status(429, retry_after="Wed, 21 Oct 2015 07:28:00 GMT"), HttpStatus(429, 0)),
    "429 with an absurd wait": (status(429, retry_after="99999999999999999999"), HttpStatus(429, 600)),
    "429 with an absurd date": (status(429, retry_after="Fri, 31 Dec 9999 23:59:59 GMT"), HttpStatus(429, 600)),
    "429 with a senseless wait": (status(429, retry_after="soon"), HttpStatus(429)),
    "429 with a JSON-RPC error": (faulty.refuse(-32005, "limit", status=429), HttpStatus(429)),
    "500 with a JSON-RPC error": (faulty.refuse(-32000, "oops", status=500), HttpStatus(500)),
    "401": (faulty.refuse(-32000, "Must be authenticated!", status=401), HttpStatus(401)),
    "302": (status(302, location="http://127.0.0.1:1/"), HttpStatus(302)),
    "308": (status(308, location="/elsewhere"), HttpStatus(308)),
    "204": (faulty.answer_raw(b"HTTP/1.1 204 No Content\r\n\r\n"), HttpStatus(204)),
    "101": (
        faulty.answer_raw(b"HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n"),
        (Transport, "did not speak HTTP"),
    ),
    "400 with a result": (
        faulty.answer_document(lambda asked: {"jsonrpc": "2.0", "id": asked["id"], "result": "0x10"}, status=400),
        HttpStatus(400),
    ),
    "400 with another's error": (
        faulty.answer_document(lambda asked: {"jsonrpc": "2.0", "id": -1, "error": ERROR}, status=400),
        HttpStatus(400),
    ),
    "404 page": (status(404, body=b"<html>not here</html>"), HttpStatus(404)),
    "503 with an endless body": (
        faulty.answer_raw(b"HTTP/1.1 503 No\r\ncontent-length: 9999999\r\n\r\n" + b"x" * 200_000),
        HttpStatus(503),
    ),
    "503 that hangs in the body": (hang_in_refusal, HttpStatus(503, 7)),
    # Size
    "a huge body": (faulty.answer_body(b"[" + b" " * (2 * BYTES_MAX)), BodyTooLarge(BYTES_MAX)),
    "an endless body": (faulty.endless_body, BodyTooLarge(BYTES_MAX)),
    "a gzip bomb": (faulty.gzip_bomb(100 * 2**20), BodyTooLarge(BYTES_MAX)),
    "truncated gzip": (
        faulty.answer_body(b"\x1f\x8b\x08\x00", headers={"content-encoding": "gzip"}),
        (Malformed, "ends early"),
    ),
    "an encoding chain": (
        faulty.answer_body(b"{}", headers={"content-encoding": "gzip, gzip"}),
        (Malformed, "not asked for"),
    ),
    # JSON
    "HTML with status 200": (faulty.answer_body(b"<html><body>Gateway</body></html>"), (Malformed, "HTML")),
    "an empty body": (faulty.answer_body(b""), (Malformed, "empty")),
    "no JSON": (faulty.answer_body(b"pong"), (Malformed, "not valid JSON")),
    "half JSON": (faulty.answer_body(b'{"jsonrpc":"2.0","id":1,'), (Malformed, "not valid JSON")),
    "deep JSON": (faulty.answer_body(nested(100_000)), (Malformed, "deep")),
    "half a character": (faulty.answer_body(b'{"a":"\xc3"}'), (Malformed, "not valid JSON")),
    # Envelope
    "another id": (spoilt(id=10**6), (Malformed, "carries id 1000000")),
    "an id of another type": (
        faulty.answer_document(lambda asked: {"jsonrpc": "2.0", "id": str(asked["id"]), "result": "0x10"}),
        (Malformed, "carries id"),
    ),
    "no id": (
        faulty.answer_document(lambda asked: {"jsonrpc": "2.0", "result": "0x10"}),
        (Malformed, "carries id null"),
    ),
    "an array": (
        faulty.answer_document(lambda asked: [{"jsonrpc": "2.0", "id": asked["id"], "result": "0x10"}]),
        (Malformed, "array"),
    ),
    "no result": (
        faulty.answer_document(lambda asked: {"jsonrpc": "2.0", "id": asked["id"]}),
        (Malformed, "neither result nor error"),
    ),
    "result and error": (spoilt(error=ERROR), (Malformed, "both result and error")),
    "an error without code": (
        faulty.answer_document(lambda asked: {"jsonrpc": "2.0", "id": asked["id"], "error": {"message": "no"}}),
        (Malformed, "error.code is missing"),
    ),
    "an error of text": (
        faulty.answer_document(lambda asked: {"jsonrpc": "2.0", "id": asked["id"], "error": "no"}),
        (Malformed, "error"),
    ),
    "a member twice": (
        faulty.answer_body(lambda asked: b'{"jsonrpc":"2.0","id":%d,"result":"0x1","result":"0x2"}' % asked["id"]),
        (Malformed, "given twice"),
    ),
    # Value
    "a leading zero": (result("0x010"), (Malformed, "hex quantity")),
    "an overflow": (result("0x1" + "0" * 16), (Malformed, "does not fit 64 bits")),
    "a number": (result(16), (Malformed, "hex quantity")),
    "null": (result(None), (Malformed, "found null")),
    "an object": (result({"number": "0x10"}), (Malformed, "found an object")),
    "a negative": (result("-0x1"), (Malformed, "hex quantity")),
}


def endpoint(server: FaultyServer, **options: Any) -> AbstractAsyncContextManager[Endpoint]:
    """An endpoint with little room."""
    limits: dict[str, Any] = {"chain_id": CHAIN_ID, "deadline_seconds": PATIENT_SECONDS, "body_bytes_max": BYTES_MAX}
    return Endpoint.open(server.url, **(limits | options))


def patience(expected: object) -> float:
    return DEADLINE_SECONDS if isinstance(expected, DeadlinePassed) else PATIENT_SECONDS


def check(fault: object, expected: Reason | tuple[type[Reason], str]) -> None:
    assert isinstance(fault, EndpointFault)
    assert fault.method == "eth_blockNumber"
    if isinstance(expected, tuple):
        kind, words = expected
        assert isinstance(fault.reason, kind)
        assert words in str(fault)
    else:
        assert fault.reason == expected


@pytest.mark.parametrize("name", FAULTS)
async def test_every_fault_is_typed_and_leaves_no_trace(server: FaultyServer, name: str) -> None:
    """Goal: RPC-8. Method: one bad answer, its fault, then honest answers over a pool that lost nothing."""
    behaviour, expected = FAULTS[name]
    async with endpoint(server, deadline_seconds=patience(expected)) as asked:
        assert await asked.ask(methods.block_number()) == 16
        server.behave(behaviour)
        with trio.fail_after(PATIENT_SECONDS), pytest.raises(EndpointFault) as caught:
            await asked.ask(methods.block_number())
        check(caught.value, expected)
        assert [await asked.ask(methods.block_number()) for _ in range(3)] == [16] * 3
        await until(lambda: server.connections_open == 1, what="the broken connection to be closed")
    await until(lambda: server.connections_open == 0, what="every connection to be closed")


@pytest.mark.parametrize("name", FAULTS)
async def test_every_fault_of_a_write_is_typed_and_sent_once(server: FaultyServer, name: str) -> None:
    """Goal: no write is repeated by this layer (RPC-1). Method: each fault in answer to a broadcast; count requests."""
    behaviour, expected = FAULTS[name]
    async with endpoint(server, deadline_seconds=patience(expected)) as asked:
        server.behave(behaviour)
        with trio.fail_after(PATIENT_SECONDS), pytest.raises(EndpointFault):
            await asked.ask(methods.send_raw_transaction(b"\x02\xf8"))
        assert server.asked("eth_sendRawTransaction") == 1


async def test_nobody_listens() -> None:
    """Goal: a dead endpoint is a fault, then recovers by itself. Method: a closed port; then a server on it."""
    async with faulty_server() as before:
        port = before.port
    async with Endpoint.open(f"http://127.0.0.1:{port}", chain_id=CHAIN_ID, deadline_seconds=2) as asked:
        with pytest.raises(EndpointFault) as caught:
            await asked.ask(methods.block_number())
        assert isinstance(caught.value.reason, Transport)
        assert "could not connect" in str(caught.value)
        async with faulty_server(port=port):
            assert await asked.ask(methods.block_number()) == 16


@pytest.mark.parametrize("url", ["http://127.0.0.1:1/" + "x" * 70_000, "ws://127.0.0.1"])
async def test_a_url_that_cannot_be_asked(url: str) -> None:
    """Goal: a bad setting is refused when the endpoint opens, in one line. Method: what only the library refuses."""
    with pytest.raises(EndpointUrlRefused, match="is not usable") as caught:
        async with Endpoint.open(url, chain_id=1):
            pass
    assert len(str(caught.value)) < 200


class Nobody(trio.abc.HostnameResolver):
    """A resolver that knows no name."""

    async def getaddrinfo(self, *_: Any, **__: Any) -> Any:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    async def getnameinfo(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError


async def test_a_host_that_does_not_exist() -> None:
    """Goal: a wrong host name is a fault of that endpoint. Method: a resolver that knows no name."""
    trio.socket.set_custom_hostname_resolver(Nobody())
    async with Endpoint.open("http://nobody.invalid", chain_id=1) as asked:
        with pytest.raises(EndpointFault, match="Name or service not known") as caught:
            await asked.ask(methods.block_number())
    assert isinstance(caught.value.reason, Transport)


async def test_waiting_for_our_own_bound_is_told_apart(server: FaultyServer) -> None:
    """Goal: our own overload is not charged to the endpoint. Method: one slot, taken by a question that hangs."""
    server.behave(faulty.hang)
    url = EndpointUrl.parse(server.url)
    body = b'{"id":1,"method":"x"}'
    async with (
        HttpTransport.open(url, in_flight_max=1, body_bytes_max=1, keepalive_seconds=1, tls=None) as transport,
        trio.open_nursery() as tasks,
    ):
        holder, waiter = Progress(), Progress()
        tasks.start_soon(transport.post, body, holder)
        await until(lambda: len(server.requests) == 1, what="the slot to be taken")
        with trio.move_on_after(0.05):
            await transport.post(body, waiter)
        assert (holder.stage, waiter.stage) == ("headers", "slot")
        assert "our own in-flight bound" in str(DeadlinePassed(0.05, waiter.stage))
        tasks.cancel_scope.cancel()


async def test_in_flight_requests_are_bounded(server: FaultyServer) -> None:
    """Goal: one endpoint never has more connections than allowed. Method: forty questions at once, a bound of four."""
    async with endpoint(server, in_flight_max=4) as asked, trio.open_nursery() as tasks:
        for _ in range(40):
            tasks.start_soon(asked.ask, methods.block_number())
    assert server.connections_total <= 4
    assert server.asked("eth_blockNumber") == 40


async def test_tls_is_verified(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    """Goal: no endpoint without a certificate we trust, whatever the environment says.

    Method: a private authority, trusted once by argument, once only through SSL_CERT_FILE.
    """
    authority, context = authority_and_server()
    authority.cert_pem.write_to_path(tmp_path / "authority.pem")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "authority.pem"))
    async with faulty_server(tls=context) as server:
        async with endpoint(server, tls=trusting(authority)) as asked:
            assert await asked.ask(methods.block_number()) == 16
        async with endpoint(server) as asked:
            with pytest.raises(EndpointFault) as caught:
                await asked.ask(methods.block_number())
            assert isinstance(caught.value.reason, Transport)


async def test_no_proxy_of_the_environment_is_used(server: FaultyServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: signed bytes go where configured. Method: an environment that names a proxy for everything."""
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    async with endpoint(server) as asked:
        assert await asked.ask(methods.block_number()) == 16


async def test_cookies_are_not_kept(server: FaultyServer) -> None:
    """Goal: an endpoint cannot mark us. Method: set a cookie, look at the next request."""
    server.behave(
        faulty.answer_body(
            lambda asked: b'{"jsonrpc":"2.0","id":%d,"result":"0x10"}' % asked["id"],
            headers={"set-cookie": "mark=1; path=/"},
        )
    )
    async with endpoint(server) as asked:
        for _ in range(2):
            await asked.ask(methods.block_number())
    assert all("cookie" not in request.headers for request in server.requests)


async def test_the_wrong_chain_is_never_believed(server: FaultyServer) -> None:
    """Goal: RPC-6. Method: a server of another chain; the question itself must not even be sent. Then the right one."""
    server.chain_id = 1
    async with endpoint(server) as asked:
        for _ in range(2):
            with pytest.raises(WrongChain) as caught:
                await asked.ask(methods.block_number())
            assert caught.value.reason == ChainMismatch(expected=CHAIN_ID, found=1)
            assert "serves chain id 1, expected 31337" in str(caught.value)
        outcome = (await asked.ask_many([methods.block_number()] * 2))[1]
        assert isinstance(outcome, WrongChain)
        assert server.asked("eth_blockNumber") == 0
        server.chain_id = CHAIN_ID
        assert await asked.ask(methods.block_number()) == 16
