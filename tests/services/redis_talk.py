"""Redis' protocol, RESP: one reply for each command, in order (redis.io, "Redis serialization protocol")."""

from collections import deque
from functools import cache
from hashlib import sha1

from storage.bullmq_package import load_script, script_files
from tests.services.talk import Answer, Request

_END = b"\r\n"
# Types whose header counts the bytes, or the values, that follow.
_BULK = b"$!="
_AGGREGATES = {b"*": 1, b"~": 1, b">": 1, b"%": 2}
# Commands that are told apart by their second word.
_CONTAINERS = {"CLIENT", "CONFIG", "SCRIPT"}


class RedisTalk:
    """One connection of a client that pipelines; not one that subscribes or monitors."""

    def __init__(self) -> None:
        self.unanswered: deque[Request] = deque()
        self._asking = b""
        self._answering = b""

    def asked(self, chunk: bytes) -> list[Request]:
        frames, self._asking = _frames(self._asking + chunk)
        requests = [Request(frame, (label_of(frame),)) for frame in frames]
        self.unanswered.extend(requests)
        return requests

    def answered(self, chunk: bytes) -> list[Answer]:
        frames, self._answering = _frames(self._answering + chunk)
        return [Answer(frame, self.unanswered.popleft() if self.unanswered else None) for frame in frames]


def label_of(command: bytes) -> str:
    """`moveToActive` for one of BullMQ's scripts, else the command's name: `LRANGE`, `SCRIPT LOAD`."""
    words = _words(command)
    if words[0] == "EVALSHA":
        return script_names().get(words[1].encode(), words[1])
    return " ".join(words[:2]) if words[0] in _CONTAINERS else words[0]


@cache
def script_names() -> dict[bytes, str]:
    """The names of BullMQ's scripts by the digests under which Redis knows them."""
    return {
        sha1(load_script(file).encode(), usedforsecurity=False).hexdigest().encode(): name
        for name, file in script_files.items()
    }


def _words(command: bytes) -> list[str]:
    """The name of a command in capitals, and its first argument as it is."""
    if not command.startswith(b"*"):
        return command.decode().upper().split()
    parts = command.split(_END, 5)
    return [parts[2].decode().upper(), *(part.decode(errors="replace") for part in parts[4:5])]


def _frames(data: bytes) -> tuple[list[bytes], bytes]:
    """The whole values that `data` begins with, and the rest."""
    frames: list[bytes] = []
    start = 0
    while (end := _end_of(data, start)) is not None:
        frames.append(data[start:end])
        start = end
    return frames, data[start:]


def _end_of(data: bytes, start: int) -> int | None:
    """Where the value that begins at `start` ends, or None while it is not all there."""
    line_end = data.find(_END, start)
    if line_end < 0:
        return None
    kind, header, end = data[start : start + 1], data[start + 1 : line_end], line_end + len(_END)
    if kind in _AGGREGATES:
        return _end_of_many(data, end, max(0, int(header)) * _AGGREGATES[kind])
    if kind and kind in _BULK and int(header) >= 0:
        end += int(header) + len(_END)
    return end if end <= len(data) else None


def _end_of_many(data: bytes, start: int, count: int) -> int | None:
    end: int | None = start
    for _ in range(count):
        end = None if end is None else _end_of(data, end)
    return end
