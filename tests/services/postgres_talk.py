"""PostgreSQL's protocol: turns of the client, and the server's answers (documentation, "Frontend/Backend Protocol")."""

from collections import deque
from collections.abc import Iterator
from functools import cache
from typing import Final

from attrs import frozen

from storage.queries import all_queries
from tests.services.talk import Answer, Request

_LABEL_LENGTH_MAX: Final = 60
_SSL_REQUEST: Final = 80877103
# After these the client waits for an answer: Sync, Query, Flush.
_TURN_ENDS: Final = b"SQH"
# These stand alone, and what comes back is of the opening, or nothing: password, Terminate.
_ALONE: Final = b"pX"
# The last message of the answer to a turn that a Flush ends, by the last message before the Flush.
_FLUSHED: Final = {b"P": b"1E", b"B": b"2E", b"D": b"TnE", b"E": b"CIsE"}
_READY: Final = b"Z"
_COMMIT: Final = "storage/session.commit"


@frozen
class _Turn:
    request: Request
    # The kinds of message that end its answer.
    ends: bytes


class PostgresTalk:
    """One connection without TLS. A turn is all that the client sends before it waits: it is answered as one."""

    def __init__(self) -> None:
        self.unanswered: deque[Request] = deque()
        self._turns: deque[_Turn] = deque()
        self._asking = b""
        self._answering = b""
        self._opened = False
        self._asked_for_tls = False
        self._messages: list[tuple[bytes, bytes]] = []
        self._answer = b""
        # What the client prepared on this connection, by its name for it.
        self._prepared: dict[bytes, str] = {}
        self._portals: dict[bytes, str] = {}
        self._executed_last = ""

    def asked(self, chunk: bytes) -> list[Request]:
        self._asking += chunk
        requests: list[Request] = []
        while not self._opened and (opening := self._taken_opening()) is not None:
            requests.append(Request(opening))
        if not self._opened:
            return requests
        messages, self._asking = _messages(self._asking)
        for message in messages:
            kind = message[:1]
            if kind in _ALONE:
                requests.append(Request(message))
                continue
            self._messages.append((kind, message))
            if kind in _TURN_ENDS:
                requests.append(self._ended_turn())
        return requests

    def answered(self, chunk: bytes) -> list[Answer]:
        if self._asked_for_tls:
            # One byte outside of every message: no, or yes and nothing readable after it.
            assert chunk[:1] == b"N", "the proxy reads no TLS: let the server of the test offer none."
            self._asked_for_tls = False
            return [Answer(chunk[:1], None), *self.answered(chunk[1:])]
        messages, self._answering = _messages(self._answering + chunk)
        return list(self._attributed(messages))

    def _attributed(self, messages: list[bytes]) -> Iterator[Answer]:
        for message in messages:
            if not self._turns:
                yield Answer(message, None)
                continue
            self._answer += message
            if message[:1] in self._turns[0].ends:
                yield Answer(self._answer, self._turns.popleft().request)
                self._answer = b""
                self.unanswered.popleft()

    def _taken_opening(self) -> bytes | None:
        """A message of the opening, which has a length and no kind; None while it is not all there."""
        length = int.from_bytes(self._asking[:4])
        if len(self._asking) < max(length, 8):
            return None
        opening, self._asking = self._asking[:length], self._asking[length:]
        self._asked_for_tls = int.from_bytes(opening[4:8]) == _SSL_REQUEST
        self._opened = not self._asked_for_tls
        return opening

    def _ended_turn(self) -> Request:
        messages, self._messages = self._messages, []
        labels: list[str] = []
        for kind, message in messages:
            labels += self._labels(kind, message)
        request = Request(b"".join(message for _, message in messages), tuple(labels))
        flushed = len(messages) > 1 and messages[-1][0] == b"H"
        self._turns.append(_Turn(request, _FLUSHED.get(messages[-2][0], _READY) if flushed else _READY))
        self.unanswered.append(request)
        return request

    def _labels(self, kind: bytes, message: bytes) -> list[str]:
        """What is executed goes under its own name, what is only prepared under `prepare` and the name."""
        words = message[5:].split(b"\0", 2)
        match kind:
            case b"P":
                self._prepared[words[0]] = name_of(words[1].decode())
                return [f"prepare {self._prepared[words[0]]}"]
            case b"B":
                self._portals[words[0]] = self._prepared.get(words[1], "unknown")
                return []
            case b"Q":
                executed = name_of(words[0].decode())
            case b"E":
                executed = self._portals.get(words[0], "unknown")
            case _:
                return []
        # A commit is as many things as there are transactions: it is also known by what it commits.
        labels = [executed, f"{executed} after {self._executed_last}"] if executed == _COMMIT else [executed]
        self._executed_last = executed
        return labels


def name_of(sql: str) -> str:
    """`coordination/jobs.enqueue` for a statement of sql/, else the statement's own first words."""
    return _refs().get(sql) or " ".join(sql.split())[:_LABEL_LENGTH_MAX]


@cache
def _refs() -> dict[str, str]:
    return {query.sql: ref for ref, query in all_queries().items()}


def _messages(data: bytes) -> tuple[list[bytes], bytes]:
    """The whole messages that `data` begins with, kind and length included, and the rest."""
    messages: list[bytes] = []
    start = 0
    while len(data) >= start + 5:
        end = start + 1 + int.from_bytes(data[start + 1 : start + 5])
        if len(data) < end:
            break
        messages.append(data[start:end])
        start = end
    return messages, data[start:]
