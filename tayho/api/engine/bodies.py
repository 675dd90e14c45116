"""The body of a request, bounded in size and in time."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeAlias

import trio

from tayho.api.engine import codes
from tayho.api.engine.refusals import RequestRefused

# ASGI's own events are open mappings.
Receive: TypeAlias = Callable[[], Awaitable[Mapping[str, Any]]]

# Twice the payload in hex, and the other fields with room to breathe.
BODY_BYTES_MAX = 16 * 1024
BODY_SECONDS = 10.0
# What is read and forgotten of a body that is too large: a client that is cut off while it sends may never see why.
FORGOTTEN_BYTES_MAX = 4 * 1024 * 1024


class ClientLeft(Exception):
    """The client has gone before its request was whole. There is nobody to answer."""


async def body_of(receive: Receive) -> bytes:
    """The whole body. Raises RequestRefused where it is too large or too slow, ClientLeft."""
    kept = bytearray()
    seen = 0
    with trio.move_on_after(BODY_SECONDS):
        async for part in _Parts(receive):
            seen += len(part)
            if seen <= BODY_BYTES_MAX:
                kept += part
            if seen > FORGOTTEN_BYTES_MAX:
                break
        if seen > BODY_BYTES_MAX:
            raise RequestRefused(codes.LARGE_BODY, f"A body may have {BODY_BYTES_MAX} bytes.")
        return bytes(kept)
    raise RequestRefused(codes.SLOW_BODY, f"The body was not whole within {BODY_SECONDS:g} seconds.")


class _Parts:
    """The parts of a body, in order."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._is_whole = False

    def __aiter__(self) -> _Parts:
        return self

    async def __anext__(self) -> bytes:
        if self._is_whole:
            raise StopAsyncIteration
        event = await self._receive()
        if event["type"] == "http.disconnect":
            raise ClientLeft
        self._is_whole = not event.get("more_body", False)
        return event.get("body", b"")
