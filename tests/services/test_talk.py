"""What the proxy reads of a protocol does not depend on how the bytes arrive."""

from collections.abc import Callable

import pytest
from attrs import frozen

from tests.services.http_talk import HttpTalk
from tests.services.postgres_talk import PostgresTalk
from tests.services.redis_talk import RedisTalk, script_names
from tests.services.talk import Talk


@frozen
class Exchange:
    """What one connection carried, and what is to be read in it."""

    talk: Callable[[], Talk]
    asked: bytes
    answered: bytes
    labels: tuple[tuple[str, ...], ...]
    # For each answer, which request it is to; None for what nobody asked for.
    answers: tuple[tuple[bytes, int | None], ...]


def _message(kind: bytes, body: bytes = b"") -> bytes:
    return kind + (len(body) + 4).to_bytes(4) + body


def _command(*words: bytes) -> bytes:
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words)


_DIGEST = next(digest for digest, name in script_names().items() if name == "moveToActive")
REDIS = Exchange(
    RedisTalk,
    _command(b"EVALSHA", _DIGEST, b"0") + _command(b"get", b"a\r\nb") + b"PING\r\n" + _command(b"SCRIPT", b"LOAD", b""),
    b"*3\r\n$-1\r\n*2\r\n:1\r\n$4\r\n\r\n\r\n\r\n*-1\r\n" + b"$0\r\n\r\n" + b"+PONG\r\n" + b"-NOSCRIPT no\r\n",
    (("moveToActive",), ("GET",), ("PING",), ("SCRIPT LOAD",)),
    (
        (b"*3\r\n$-1\r\n*2\r\n:1\r\n$4\r\n\r\n\r\n\r\n*-1\r\n", 0),
        (b"$0\r\n\r\n", 1),
        (b"+PONG\r\n", 2),
        (b"-NOSCRIPT no\r\n", 3),
    ),
)
_OPENING = (9).to_bytes(4) + (196608).to_bytes(4) + b"\0"
_OPENED = _message(b"R", (0).to_bytes(4)) + _message(b"Z", b"I")
_PARSED = _message(b"1") + _message(b"t") + _message(b"n")
_EXECUTED = _message(b"2") + _message(b"C", b"INSERT 0 1\0") + _message(b"Z", b"T")
_REFUSED = _message(b"E", b"\0")
POSTGRES = Exchange(
    PostgresTalk,
    _OPENING
    + _message(b"P", b"s1\0INSERT 1\0\0\0")
    + _message(b"D", b"Ss1\0")
    + _message(b"H")
    + _message(b"B", b"\0s1\0\0\0")
    + _message(b"E", b"\0\0\0\0\0")
    + _message(b"S")
    + _message(b"Q", b"COMMIT;\0")
    + _message(b"P", b"s2\0wrong\0\0\0")
    + _message(b"D", b"Ss2\0")
    + _message(b"H")
    + _message(b"S")
    + _message(b"X"),
    _OPENED + _PARSED + _EXECUTED + _message(b"Z", b"I") + _REFUSED + _message(b"Z", b"I"),
    (
        (),
        ("prepare INSERT 1",),
        ("INSERT 1",),
        ("storage/session.commit", "storage/session.commit after INSERT 1"),
        ("prepare wrong",),
        (),
        (),
    ),
    (
        (_message(b"R", (0).to_bytes(4)), None),
        (_message(b"Z", b"I"), None),
        (_PARSED, 1),
        (_EXECUTED, 2),
        (_message(b"Z", b"I"), 3),
        (_REFUSED, 4),
        (_message(b"Z", b"I"), 5),
    ),
)
HTTP_ASKED = (
    b"GET /a HTTP/1.1\r\n\r\n",
    b"POST /b HTTP/1.1\r\nContent-Length: 4\r\n\r\n\r\n\r\n",
    b"POST /c HTTP/1.1\r\nTransfer-Encoding: gzip, chunked\r\n\r\n4;x=y\r\n0\r\n\r\r\n0\r\n\r\n",
)


@pytest.mark.parametrize("exchange", [REDIS, POSTGRES], ids=["redis", "postgres"])
def test_the_same_is_read_wherever_the_stream_is_split(exchange: Exchange) -> None:
    """Goal: requests and answers are whole, in step, and none of their bytes is lost. Method: the same exchange in two
    pieces for every place of the cut, and byte by byte. What the server says before anybody asked is read first."""
    opened = exchange.answered[: sum(len(raw) for raw, to in exchange.answers if to is None)]
    answered = exchange.answered[len(opened) :]
    for asked_cut in range(len(exchange.asked) + 1):
        for answered_cut in (asked_cut * len(answered) // len(exchange.asked), None):
            _check(exchange, opened, _pieces(exchange.asked, asked_cut), _pieces(answered, answered_cut))


def _pieces(data: bytes, cut: int | None) -> list[bytes]:
    return [data[:cut], data[cut:]] if cut is not None else [data[at : at + 1] for at in range(len(data))]


def _check(exchange: Exchange, opened: bytes, asked: list[bytes], answered: list[bytes]) -> None:
    talk = exchange.talk()
    early = talk.answered(opened) if opened else []
    requests = [request for piece in asked for request in talk.asked(piece)]
    assert b"".join(request.raw for request in requests) == exchange.asked
    assert tuple(request.labels for request in requests) == exchange.labels
    assert len(talk.unanswered) == sum(to is not None for _, to in exchange.answers)
    answers = [*early, *(answer for piece in answered for answer in talk.answered(piece))]
    expected = [(raw, None if to is None else requests[to]) for raw, to in exchange.answers]
    assert [(answer.raw, answer.request) for answer in answers] == expected
    assert not talk.unanswered


def test_http_requests_are_whole_wherever_the_stream_is_split() -> None:
    """Goal: head and body belong together, whatever the body looks like. Method: no body, one with a length that looks
    like the end of a head, and a chunked one that holds what looks like the last chunk; every cut."""
    stream = b"".join(HTTP_ASKED)
    for cut in (*range(len(stream) + 1), None):
        talk = HttpTalk()
        requests = [request for piece in _pieces(stream, cut) for request in talk.asked(piece)]
        assert tuple(request.raw for request in requests) == HTTP_ASKED
        assert [request.labels for request in requests] == [("GET /a",), ("POST /b",), ("POST /c",)]
