"""How a replica ends, and clients that are slow: what was taken is answered, and nothing is half accepted."""

from __future__ import annotations

import json
from uuid import UUID

import pytest
import trio

from tayho.api.connections import HEADER_BYTES_MAX
from tayho.api.engine import bodies
from tayho.intents.types import NotPermitted, SignedIntent
from tayho.kernel.ids import new_id
from tests.api.engine.replicas import PROBLEM, Replica, body_of, is_problem
from tests.api.probing import Answer, answer_of
from tests.intents.conftest import Line, intent, signed
from tests.waiting import until

pytestmark = pytest.mark.services

POST = b"POST /v1/intents HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"


async def exchange(engine: Replica, *parts: bytes) -> Answer:
    """Send the parts, and read until the server closes."""
    with trio.fail_after(10):
        async with await trio.open_tcp_stream(engine.bind.host, engine.bind.port) as stream:
            for part in parts:
                await stream.send_all(part)
            received = bytearray()
            async for part in stream:
                received += part
    return answer_of(bytes(received))


async def test_a_drain_answers_what_came_before_it_and_begins_nothing(
    engine: Replica, line: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Goal: a rolling update accepts nothing by half. Method: hold a submission at the chain's word, follow another
    intent, and drain: who asks now is sent away, the stream ends, and the submission is answered when the chain speaks;
    only then has the replica ended, and what it said is recorded."""
    known = (await engine.submit(body_of(signed(intent(), line.key)))).json()["id"]
    asked, speak = trio.Event(), trio.Event()

    async def permit(_: SignedIntent) -> NotPermitted | None:
        asked.set()
        await speak.wait()
        return None

    monkeypatch.setattr(line.intents, "_permit", permit)
    answers: list[str] = []
    followed: list[str] = []
    ended: list[bool] = []

    async def submit() -> None:
        answer = await engine.submit(body_of(signed(intent(salt=1), line.key)))
        assert (answer.status_code, answer.headers["connection"]) == (202, "close")
        answers.append(answer.json()["id"])

    async def follow() -> None:
        followed.append((await engine.client.get(f"/v1/intents/{known}/events")).text)

    async def end() -> None:
        await engine.ended()
        ended.append(True)

    async with trio.open_nursery() as clients:
        clients.start_soon(submit)
        clients.start_soon(follow)
        clients.start_soon(end)
        await asked.wait()
        await until(lambda: engine.watchers.number == 1, what="the stream to be open")
        engine.drain.request("a rolling update")
        refused = await engine.status(known)
        assert is_problem(refused, 503, "draining")
        assert (refused.headers["connection"], refused.headers["retry-after"]) == ("close", "1")
        await until(lambda: followed, what="the stream to end")
        assert not answers
        assert not ended
        speak.set()
    assert followed[0].count("event: status") == 1
    assert await line.intents.status(UUID(answers[0])) is not None
    with pytest.raises(OSError, match="connect"):
        await trio.open_tcp_stream(engine.bind.host, engine.bind.port)


async def test_who_leaves_before_the_answer_has_submitted_all_the_same(engine: Replica, line: Line) -> None:
    """Goal: a client that vanishes changes nothing about what it sent whole. Method: send and hang up; then ask."""
    one = signed(intent(), line.key)
    body = json.dumps(body_of(one)).encode()
    head = (
        f"POST /v1/intents HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    async with await trio.open_tcp_stream(engine.bind.host, engine.bind.port) as stream:
        await stream.send_all(head.encode() + body)

    async def is_there() -> bool:
        async with line.plane.database.connection() as connection:
            return await connection.fetchval("SELECT count(*) FROM intents.intents") == 1

    await until(is_there, what="the intent to be recorded")
    assert (await engine.submit(body)).status_code == 200


async def test_slow_and_large_requests_are_refused_in_time(engine: Replica, monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: no client holds a place by being slow, and what is no request is told so. Method: a body that stops, one
    that trickles, headers that are too large, an unknown coding, no HTTP at all; then the replica answers as usual."""
    monkeypatch.setattr(bodies, "BODY_SECONDS", 0.3)
    sent = {
        (408, "body-too-slow"): POST + b"Content-Length: 10\r\n\r\n{",
        (431, "headers-too-large"): POST + b"X: " + b"y" * 2 * HEADER_BYTES_MAX + b"\r\n\r\n",
        (400, "request-malformed"): b"hello\r\n\r\n",
    }
    for (status, code), octets in sent.items():
        answer = await exchange(engine, octets)
        assert (answer.status, answer.headers["content-type"]) == (status, PROBLEM), code
        assert answer.document["code"] == code
        assert answer.document["request_id"] == answer.headers["x-request-id"]
    coded = await exchange(engine, POST + b"Transfer-Encoding: gzip\r\n\r\n")
    assert (coded.status, coded.document["code"]) == (400, "request-malformed")
    upgrade = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n\r\n"
    with trio.move_on_after(0.5):
        assert (await exchange(engine, b"GET /docs HTTP/1.1\r\nHost: x\r\n" + upgrade)).status == 200
    assert is_problem(await engine.status(str(new_id())), 404, "intent-unknown")
