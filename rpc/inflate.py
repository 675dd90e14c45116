"""A response body that grows to its real size only as far as we allow (RPC-8).

The HTTP library would decode whatever chain of encodings a server names, and one chain of two inflates a few
kilobytes to gigabytes before the first byte can be counted. So one encoding is understood, the one we ask for, and
every step of it is bounded.
"""

from __future__ import annotations

import zlib
from typing import Protocol

ACCEPTED_ENCODING = "gzip"


class _Inflater(Protocol):
    """What `zlib.decompressobj` gives; its class has no public name."""

    @property
    def eof(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, max_length: int, /) -> bytes: ...


class TooLarge(Exception):
    """The body is larger than allowed."""


class Garbled(Exception):
    """The body is not in the encoding it claims."""


class Body:
    """Collects the bytes of one body, as they come from the wire, into at most `bytes_max` decoded bytes."""

    def __init__(self, encoding: str | None, bytes_max: int) -> None:
        """Raises Garbled for an encoding we did not ask for."""
        name = (encoding or "identity").strip().lower()
        if name not in {"identity", ACCEPTED_ENCODING}:
            raise Garbled("the body comes in an encoding that was not asked for")
        self._inflater: _Inflater | None = (
            zlib.decompressobj(zlib.MAX_WBITS | 16) if name == ACCEPTED_ENCODING else None
        )
        self._bytes_max = bytes_max
        self._wire_bytes = 0
        self._decoded = bytearray()

    def feed(self, chunk: bytes) -> None:
        """Take bytes from the wire. Raises TooLarge or Garbled."""
        # Counted too: a compressed stream can be endless and decode to nothing.
        self._wire_bytes += len(chunk)
        if self._wire_bytes > self._bytes_max:
            raise TooLarge
        room = self._bytes_max - len(self._decoded)
        self._decoded += chunk if self._inflater is None else _inflated(self._inflater, chunk, room)
        if len(self._decoded) > self._bytes_max:
            raise TooLarge

    def finish(self) -> bytes:
        """The whole decoded body. Raises Garbled when a compressed body ends early or goes on after its end."""
        if self._inflater is not None and self._wire_bytes and not self._inflater.eof:
            raise Garbled("the compressed body ends early")
        return bytes(self._decoded)


def _inflated(inflater: _Inflater, chunk: bytes, room: int) -> bytes:
    try:
        # One byte more than there is room for tells "exactly full" from "too large"; the rest is never produced.
        decoded = inflater.decompress(chunk, room + 1)
    except zlib.error as error:
        raise Garbled("the body is not the gzip it claims to be") from error
    if inflater.unused_data:
        raise Garbled("the compressed body goes on after its end")
    return decoded
