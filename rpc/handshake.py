"""The connection under a TLS handshake, which the HTTP library forgets when it is cancelled there.

Measured with httpcore2 2.16: a cancelled handshake leaves the socket open until the garbage collector finds it, so an
endpoint that accepts and says nothing would collect our sockets. The library's `trace` hook shows the socket in time.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol


class _Stream(Protocol):
    """What the library reports as its network stream."""

    def get_extra_info(self, info: str) -> Any: ...


class Handshake:
    """Watches one exchange through its `trace` extension."""

    def __init__(self) -> None:
        self._stream: _Stream | None = None

    async def trace(self, event: str, info: Mapping[str, Any]) -> None:
        """Hear what the library does; the names of events are httpcore's (its documentation, "trace")."""
        if event == "connection.connect_tcp.complete":
            self._stream = info["return_value"]
        elif event == "connection.start_tls.complete":
            self._stream = None

    def close_unfinished(self) -> None:
        """Close the socket of a handshake that did not end. Once it ended, the library closes it itself."""
        if self._stream is not None:
            self._stream.get_extra_info("socket").close()
