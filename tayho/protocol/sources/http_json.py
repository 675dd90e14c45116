"""A source that answers a GET over HTTP: bounded in size and time, no redirect followed, its word proven elsewhere.

The library's transport is used without its client on top, for the reasons in `rpc.transport`. A connection lives for
one answer: sources are asked every few seconds at most, and nothing is kept that could go stale.
"""

from __future__ import annotations

import hashlib
import logging
import ssl
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager
from typing import Protocol, cast

import httpx2
import trio

from nursery.cleanup import finish
from rpc.foreign_text import printable
from rpc.urls import EndpointUrl
from tayho.protocol.sources.errors import SourceForged, SourceSilent, SourceUnusable

ANSWER_BYTES_MAX = 64 * 1_024
ANSWER_SECONDS_MAX = 5.0
_CLOSE_SECONDS = 1.0
_HTTP_OK = 200
_DETAIL_CHARACTERS_MAX = 200


class HttpJson:
    """The body of one URL. With `certificates`, only of a server that shows one of them (SHA-256 of its DER form)."""

    def __init__(self, url: str, certificates: tuple[bytes, ...] = (), tls: ssl.SSLContext | None = None) -> None:
        """`tls` None means the system's trusted roots. Raises EndpointUrlRefused."""
        # Its debug log shows headers, and a redirect's location may be our own path, key and all.
        logging.getLogger("httpcore2").setLevel(logging.INFO)
        self._url = EndpointUrl.parse(url)
        self._certificates = frozenset(certificates)
        self._tls = tls
        self._headers = {
            "user-agent": "tayho",
            "accept": "application/json",
            # Nothing is inflated: what is counted is what was sent.
            "accept-encoding": "identity",
            "connection": "close",
            **({} if self._url.authorization is None else {"authorization": self._url.authorization}),
        }

    async def fetch(self) -> bytes:
        """Raises SourceSilent, SourceForged, SourceUnusable."""
        try:
            with trio.fail_after(ANSWER_SECONDS_MAX):
                return await self._exchange()
        except trio.TooSlowError as error:
            raise SourceSilent(f"no whole answer within {ANSWER_SECONDS_MAX:g} s") from error
        except (httpx2.HTTPError, OSError) as error:
            detail = printable(self._url.redact(str(error)), _DETAIL_CHARACTERS_MAX)
            raise SourceSilent(f"{self._url.shown}: {detail or type(error).__name__}") from None

    async def _exchange(self) -> bytes:
        async with self._transport() as http:
            request = httpx2.Request("GET", self._url.target, headers=self._headers)
            async with aclosing(await http.handle_async_request(request)) as response:
                self._refuse_unknown_server(response)
                if response.status_code != _HTTP_OK:
                    raise SourceUnusable(f"HTTP status {response.status_code}")
                if response.headers.get("content-encoding", "identity") != "identity":
                    raise SourceUnusable("the answer is compressed, which was not asked for")
                return await _bounded(response)

    @asynccontextmanager
    async def _transport(self) -> AsyncGenerator[httpx2.AsyncHTTPTransport]:
        http = httpx2.AsyncHTTPTransport(verify=self._context(), trust_env=False, http2=False, retries=0)
        try:
            yield http
        finally:
            await finish(http.aclose, seconds=_CLOSE_SECONDS)

    def _context(self) -> ssl.SSLContext:
        """The roots are read once, and only where something is encrypted."""
        if self._tls is None:
            is_https = self._url.target.startswith("https:")
            self._tls = (
                httpx2.create_ssl_context(verify=True, trust_env=False)
                if is_https
                else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            )
        return self._tls

    def _refuse_unknown_server(self, response: httpx2.Response) -> None:
        if not self._certificates:
            return
        stream = cast("_Stream", response.extensions["network_stream"])
        shown = cast("_Tls | None", stream.get_extra_info("ssl_object"))
        certificate = None if shown is None else shown.getpeercert(binary_form=True)
        if certificate is None or hashlib.sha256(certificate).digest() not in self._certificates:
            raise SourceForged("the server shows a certificate that is not among the pinned ones")


class _Stream(Protocol):
    def get_extra_info(self, info: str) -> object: ...


class _Tls(Protocol):
    def getpeercert(self, binary_form: bool) -> bytes | None: ...


async def _bounded(response: httpx2.Response) -> bytes:
    content = bytearray()
    async with aclosing(response.aiter_raw()) as chunks:
        async for chunk in chunks:
            content += chunk
            if len(content) > ANSWER_BYTES_MAX:
                raise SourceUnusable(f"the answer is larger than {ANSWER_BYTES_MAX} bytes")
    return bytes(content)
