"""A real node as a front asks it: bytes in, bytes out, over connections that are kept."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

import trio
from attrs import define, field

_HEAD = b"POST / HTTP/1.1\r\nhost: node\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
_LENGTH = b"content-length:"


@define(eq=False)
class Node:
    """Plain HTTP/1.1 without a client's library: a front stands in every request's way."""

    host: str
    port: int
    _idle: list[trio.SocketStream] = field(factory=list[trio.SocketStream])

    @classmethod
    @asynccontextmanager
    async def at(cls, url: str) -> AsyncGenerator[Node]:
        parts = urlsplit(url)
        assert parts.hostname is not None
        assert parts.port is not None
        node = cls(parts.hostname, parts.port)
        try:
            yield node
        finally:
            for stream in node._idle:
                await trio.aclose_forcefully(stream)

    async def answers(self, calls: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """Its envelopes, in the order asked."""
        body = json.dumps([call | {"id": at} for at, call in enumerate(calls)]).encode()
        by_place = {answer["id"]: answer for answer in json.loads(await self.post(body))}
        return [by_place[at] | {"id": call["id"]} for at, call in enumerate(calls)]

    async def post(self, body: bytes) -> bytes:
        """The body that answers this one. Raises trio.BrokenResourceError where the node goes away."""
        stream = self._idle.pop() if self._idle else await trio.open_tcp_stream(self.host, self.port)
        try:
            await stream.send_all(_HEAD % len(body) + body)
            answer = await _body_of_answer(stream)
        except BaseException:
            await trio.aclose_forcefully(stream)
            raise
        self._idle.append(stream)
        return answer


async def _body_of_answer(stream: trio.SocketStream) -> bytes:
    received = await _more(stream)
    while b"\r\n\r\n" not in received:
        received += await _more(stream)
    head, _, body = received.partition(b"\r\n\r\n")
    (length,) = (int(line[len(_LENGTH) :]) for line in head.lower().split(b"\r\n") if line.startswith(_LENGTH))
    parts, missing = [body], length - len(body)
    while missing > 0:
        parts.append(await _more(stream))
        missing -= len(parts[-1])
    return b"".join(parts)


async def _more(stream: trio.SocketStream) -> bytes:
    chunk = bytes(await stream.receive_some())
    if not chunk:
        raise trio.BrokenResourceError("the node closed the connection")
    return chunk
