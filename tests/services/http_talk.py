"""HTTP/1.1: whole requests, head and body (RFC 9112)."""

import re
from collections import deque

from tests.services.talk import Answer, Request

_HEAD_END = b"\r\n\r\n"
_LENGTH = re.compile(rb"\r\ncontent-length:\s*(\d+)", re.IGNORECASE)
_CHUNKED = re.compile(rb"\r\ntransfer-encoding:[^\r]*chunked", re.IGNORECASE)


class HttpTalk:
    """One connection of a client that does not pipeline: whatever comes back answers its last request."""

    def __init__(self) -> None:
        self.unanswered: deque[Request] = deque(maxlen=1)
        self._asking = b""

    def asked(self, chunk: bytes) -> list[Request]:
        self._asking += chunk
        requests: list[Request] = []
        while (end := _end_of(self._asking)) is not None:
            raw, self._asking = self._asking[:end], self._asking[end:]
            requests.append(Request(raw, (_label_of(raw),)))
            self.unanswered.append(requests[-1])
        return requests

    def answered(self, chunk: bytes) -> list[Answer]:
        return [Answer(chunk, self.unanswered[0] if self.unanswered else None)]


def _label_of(raw: bytes) -> str:
    """Method and target: `POST /rpc`."""
    return b" ".join(raw.split(b" ", 2)[:2]).decode(errors="replace")


def _end_of(data: bytes) -> int | None:
    """Where the request that `data` begins with ends, or None while it is not all there."""
    head_end = data.find(_HEAD_END)
    if head_end < 0:
        return None
    head, body_start = data[: head_end + 2], head_end + len(_HEAD_END)
    if _CHUNKED.search(head):
        return _end_of_chunks(data, body_start)
    length = _LENGTH.search(head)
    end = body_start + (int(length[1]) if length else 0)
    return end if end <= len(data) else None


def _end_of_chunks(data: bytes, start: int) -> int | None:
    """Where a chunked body without trailers ends, or None while it is not all there."""
    while (line_end := data.find(b"\r\n", start)) >= 0:
        size = int(data[start:line_end].partition(b";")[0], 16)
        start = line_end + 2 + size + 2
        if size == 0:
            return start if start <= len(data) else None
    return None
