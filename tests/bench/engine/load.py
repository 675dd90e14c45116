"""HTTP as cheap as it can be sent: requests made before, over connections that stay open."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence

import trio
from attrs import frozen

CONNECTIONS = 32
_LENGTH = re.compile(rb"content-length: (\d+)", re.IGNORECASE)


@frozen
class Answered:
    """What was answered, in the order in which it came, and how fast."""

    statuses: Sequence[int]
    bodies: Sequence[bytes]
    per_second: float


def request(method: str, path: str, body: bytes = b"") -> bytes:
    """One request, whole."""
    head = f"{method} {path} HTTP/1.1\r\nHost: engine\r\n"
    if body:
        head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
    return head.encode() + b"\r\n" + body


async def send(address: str, requests: Sequence[bytes]) -> Answered:
    """Send them all, CONNECTIONS at a time."""
    host, _, port = address.rpartition(":")
    left = iter(requests)
    answers: list[tuple[int, bytes]] = []
    began = time.perf_counter()
    async with trio.open_nursery() as clients:
        for _ in range(min(CONNECTIONS, len(requests))):
            clients.start_soon(_client, host, int(port), left, answers)
    seconds = time.perf_counter() - began
    return Answered([status for status, _ in answers], [body for _, body in answers], len(requests) / seconds)


async def _client(host: str, port: int, left: Iterator[bytes], answers: list[tuple[int, bytes]]) -> None:
    stream = await trio.open_tcp_stream(host, port)
    try:
        for octets in left:
            await stream.send_all(octets)
            head, body, ends = await _answer(stream)
            answers.append((int(head.split(b" ", 2)[1]), body))
            if ends:
                await stream.aclose()
                stream = await trio.open_tcp_stream(host, port)
    finally:
        await trio.aclose_forcefully(stream)


async def _answer(stream: trio.SocketStream) -> tuple[bytes, bytes, bool]:
    received = b""
    while b"\r\n\r\n" not in received:
        received += await stream.receive_some()
    head, _, body = received.partition(b"\r\n\r\n")
    found = _LENGTH.search(head)
    assert found is not None, head
    while len(body) < int(found[1]):
        body += await stream.receive_some()
    return head, body, b"connection: close" in head.lower()
