"""HTTP/1.1 to one endpoint: one POST, one bounded answer. The only user of the HTTP library.

The library's transport is used without its client on top: the client would log each URL with its key, keep cookies,
follow proxies and redirects, and decode any chain of encodings.

Nothing here has a time limit of its own: the caller's cancel scope bounds the whole exchange, and `Progress` tells it
where that stood.
"""

from __future__ import annotations

import logging
import ssl
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager

import httpx2
import trio
from attrs import define, field, frozen

from rpc.connections import Connections
from rpc.errors import BodyTooLarge, EndpointUrlRefused, Malformed, Reason, Stage, Transport
from rpc.foreign_text import printable
from rpc.handshake import Handshake
from rpc.inflate import ACCEPTED_ENCODING, Body, Garbled, TooLarge
from rpc.urls import EndpointUrl

HTTP_OK = 200
_REFUSAL_BODY_BYTES_MAX = 64 * 1024
_REFUSAL_BODY_SECONDS = 1.0
_DETAIL_CHARACTERS_MAX = 200


class ExchangeFailed(Exception):
    """The exchange gave no HTTP answer; `reason` says why. The endpoint makes it an EndpointFault."""

    def __init__(self, reason: Reason) -> None:
        super().__init__(str(reason))
        self.reason = reason


@define
class Progress:
    """Where an exchange stands, for whoever cuts it off."""

    stage: Stage = "slot"


@frozen
class HttpAnswer:
    """A status and its decoded body. For a status other than 200 the body is empty when it was large or slow.

    `connection` stands for the connection the answer came over: the same object while it is kept alive.
    """

    status: int
    body: bytes = field(repr=False)
    retry_after: str | None
    connection: object = field(repr=False)


class HttpTransport:
    """Connections to one endpoint, at most `in_flight_max` of them, kept alive between exchanges."""

    def __init__(self, connections: Connections, url: EndpointUrl, in_flight_max: int, bytes_max: int) -> None:
        self._connections = connections
        self._url = url
        self._target = _target(url)
        self._headers = httpx2.Headers(
            {
                "host": self._target.netloc.decode("ascii"),
                "user-agent": "tayho",
                "accept": "application/json",
                "accept-encoding": ACCEPTED_ENCODING,
                "content-type": "application/json",
                **({} if url.authorization is None else {"authorization": url.authorization}),
            }
        )
        self._slots = trio.CapacityLimiter(in_flight_max)
        self._bytes_max = bytes_max

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        url: EndpointUrl,
        *,
        in_flight_max: int,
        body_bytes_max: int,
        keepalive_seconds: float,
        tls: ssl.SSLContext | None,
    ) -> AsyncGenerator[HttpTransport]:
        """Connects lazily; closes every connection at the end. `tls` None means the system's trusted roots.

        Raises EndpointUrlRefused.
        """
        # Its debug log shows every header a server sends, and a redirect's location is our own path, key and all.
        logging.getLogger("httpcore2").setLevel(logging.INFO)
        is_https = url.target.startswith("https:")
        async with Connections.open(keepalive_seconds, tls, is_https=is_https) as connections:
            yield cls(connections, url, in_flight_max, body_bytes_max)

    async def post(self, body: bytes, progress: Progress) -> HttpAnswer:
        """Send one request and read its whole answer. Raises ExchangeFailed."""
        progress.stage = "slot"
        async with self._slots:
            progress.stage = "headers"
            http = await self._connections.take()
            try:
                return await self._exchange(http, body, progress)
            except (httpx2.HTTPError, OSError) as error:
                raise ExchangeFailed(self._transport(error)) from self._url.shown_cause(error)
            except TooLarge as error:
                raise ExchangeFailed(BodyTooLarge(self._bytes_max)) from error
            except Garbled as error:
                raise ExchangeFailed(Malformed(str(error))) from error
            finally:
                self._connections.give_back(http)

    async def _exchange(self, http: httpx2.AsyncHTTPTransport, body: bytes, progress: Progress) -> HttpAnswer:
        async with aclosing(await self._sent(http, body)) as response:
            progress.stage = "body"
            if response.status_code == HTTP_OK:
                content = await self._content(response, self._bytes_max)
            else:
                content = await self._refusal_content(response)
            return HttpAnswer(
                status=response.status_code,
                body=content,
                retry_after=response.headers.get("retry-after"),
                connection=response.extensions["network_stream"],
            )

    async def _sent(self, http: httpx2.AsyncHTTPTransport, body: bytes) -> httpx2.Response:
        """Send the request; returns with the headers of the answer."""
        request = httpx2.Request("POST", self._target, headers=self._headers, content=body)
        if self._target.scheme == "http":
            return await http.handle_async_request(request)
        handshake = Handshake()
        request.extensions["trace"] = handshake.trace
        try:
            return await http.handle_async_request(request)
        finally:
            handshake.close_unfinished()

    async def _content(self, response: httpx2.Response, bytes_max: int) -> bytes:
        body = Body(response.headers.get("content-encoding"), bytes_max)
        async with aclosing(response.aiter_raw()) as chunks:
            async for chunk in chunks:
                body.feed(chunk)
        return body.finish()

    async def _refusal_content(self, response: httpx2.Response) -> bytes:
        """The body beside a bad status, for its own short time and size: the status is the answer already."""
        with trio.move_on_after(_REFUSAL_BODY_SECONDS):
            try:
                return await self._content(response, min(self._bytes_max, _REFUSAL_BODY_BYTES_MAX))
            except (httpx2.HTTPError, OSError, TooLarge, Garbled):
                return b""
        return b""

    def _transport(self, error: Exception) -> Transport:
        match error:
            case httpx2.ConnectError():
                what = "could not connect"
            case httpx2.ProtocolError():
                what = "broke off or did not speak HTTP"
            case _:
                what = "the connection broke"
        detail = printable(self._url.redact(str(error)), _DETAIL_CHARACTERS_MAX)
        return Transport(f"{what}: {detail}" if detail else what)


def _target(url: EndpointUrl) -> httpx2.URL:
    try:
        return httpx2.URL(url.target)
    except httpx2.InvalidURL as error:
        raise EndpointUrlRefused(url.shown, url.redact(str(error))) from url.shown_cause(error)
