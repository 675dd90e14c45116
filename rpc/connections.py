"""Connections to one endpoint, each a transport of its own that one request at a time uses.

The library's own pool looks at every connection it has whenever a request begins or ends: with 32 in flight that was a
fifth of all the processor time of a question. Here the last one used is the next one used, and nothing is searched.
"""

from __future__ import annotations

import ssl
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import httpx2
import trio
from attrs import define, field

from nursery.cleanup import finish

_CLOSE_SECONDS = 1.0


@define(eq=False)
class Connections:
    """Idle connections, the most recently used last. How many there are at once is the caller's to bound."""

    _keepalive_seconds: float
    _tls: ssl.SSLContext
    _idle: deque[tuple[httpx2.AsyncHTTPTransport, float]] = field(
        factory=deque[tuple[httpx2.AsyncHTTPTransport, float]], init=False
    )

    @classmethod
    @asynccontextmanager
    async def open(
        cls, keepalive_seconds: float, tls: ssl.SSLContext | None, *, is_https: bool
    ) -> AsyncGenerator[Connections]:
        """Opens nothing yet; closes the idle ones at the end. `tls` None means the system's trusted roots."""
        if tls is None:
            # trust_env: no certificate file named by the environment. Reading the roots takes a while, and each
            # transport would read them again: one context for all, and an empty one where nothing is encrypted.
            tls = (
                httpx2.create_ssl_context(verify=True, trust_env=False)
                if is_https
                else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            )
        connections = cls(keepalive_seconds, tls)
        try:
            yield connections
        finally:
            await finish(connections._close_all, seconds=_CLOSE_SECONDS)

    async def take(self) -> httpx2.AsyncHTTPTransport:
        """A connection for one exchange, to be given back whatever becomes of it.

        Closes the connection that was idle for longest, if it was for too long.
        """
        if self._idle and self._is_stale(self._idle[0]):
            await self._idle.popleft()[0].aclose()
        return self._idle.pop()[0] if self._idle else self._new()

    def give_back(self, http: httpx2.AsyncHTTPTransport) -> None:
        """Keep the connection for the next exchange; one that broke opens itself anew then."""
        self._idle.append((http, trio.current_time()))

    def _is_stale(self, idle: tuple[httpx2.AsyncHTTPTransport, float]) -> bool:
        return trio.current_time() - idle[1] > self._keepalive_seconds

    def _new(self) -> httpx2.AsyncHTTPTransport:
        limits = httpx2.Limits(max_connections=1, max_keepalive_connections=1, keepalive_expiry=self._keepalive_seconds)
        # Retries: none, a lost write must stay lost.
        return httpx2.AsyncHTTPTransport(
            verify=self._tls, trust_env=False, http1=True, http2=False, limits=limits, retries=0
        )

    async def _close_all(self) -> None:
        while self._idle:
            await self._idle.pop()[0].aclose()
