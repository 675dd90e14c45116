"""HTTP/1.1 as hypercorn speaks it, less what no face here needs, and with refusals that say why."""

from __future__ import annotations

import json
from http import HTTPStatus

import h11
from hypercorn.protocol import ProtocolWrapper
from hypercorn.protocol.h11 import H11Protocol

from tayho.api.problems import MEDIA_TYPE

HEADERS_TOO_LARGE = "headers-too-large"
REQUEST_MALFORMED = "request-malformed"


class HttpOne(H11Protocol):
    """Plain HTTP/1.1: no upgrade is taken, and what is no request is answered with a problem document.

    A proxy in front speaks HTTP/2 with the world. Whoever asks for WebSockets or HTTP/2 here is answered as if he had
    not, as the standard allows.
    """

    @classmethod
    def of(cls, wrapper: ProtocolWrapper) -> HttpOne:
        """What a connection speaks, in the place of what hypercorn chose for it."""
        return cls(
            wrapper.app,
            wrapper.config,
            wrapper.context,
            wrapper.task_group,
            wrapper.state,
            wrapper.ssl,
            wrapper.client,
            wrapper.server,
            wrapper.send,
        )

    def end_after_answer(self) -> None:
        """Let the next answer be the last of this connection."""
        self.keep_alive_requests = self.config.keep_alive_max_requests

    async def _check_protocol(self, event: h11.Request) -> None:
        """No other protocol is spoken."""

    async def _create_stream(self, request: h11.Request) -> None:
        plain = [(name, value) for name, value in request.headers if name != b"upgrade"]
        await super()._create_stream(
            h11.Request(method=request.method, target=request.target, headers=plain, http_version=request.http_version)
        )

    async def _send_error_response(self, status_code: int) -> None:
        """What h11 could not read. A coding that it does not know is the sender's mistake too, and no error of ours."""
        is_large = status_code == HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE
        status = HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE if is_large else HTTPStatus.BAD_REQUEST
        code = HEADERS_TOO_LARGE if is_large else REQUEST_MALFORMED
        detail = "the headers are too large together" if is_large else "this is no HTTP/1.1 request"
        problem = {
            "type": f"urn:tayho:problem:{code}",
            "title": status.phrase,
            "status": int(status),
            "code": code,
            "detail": detail,
        }
        body = json.dumps(problem).encode()
        headers = [
            (b"content-type", MEDIA_TYPE.encode()),
            (b"content-length", str(len(body)).encode()),
            (b"connection", b"close"),
            *self.config.response_headers("h11"),
        ]
        await self._send_h11_event(h11.Response(status_code=int(status), headers=headers))
        await self._send_h11_event(h11.Data(data=body))
        await self._send_h11_event(h11.EndOfMessage())
