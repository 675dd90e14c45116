"""HTTP/1.1 as hypercorn speaks it, less what no face here needs, and with refusals that say why."""

from __future__ import annotations

import json
from uuid import uuid4

import h11
from hypercorn.events import Closed
from hypercorn.protocol import ProtocolWrapper
from hypercorn.protocol.h11 import H11Protocol

from tayho.api.problems import LARGE_HEADERS, MALFORMED_REQUEST, MEDIA_TYPE, REQUEST_ID


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
        octets = len(request.target) + sum(len(name) + len(value) for name, value in request.headers)
        if octets > self.config.h11_max_incomplete_size:
            # h11 bounds what it still waits for, and these came in one piece.
            await self._send_error_response(LARGE_HEADERS.status)
            await self.send(Closed())
            return
        plain = [(name, value) for name, value in request.headers if name != b"upgrade"]
        await super()._create_stream(
            h11.Request(method=request.method, target=request.target, headers=plain, http_version=request.http_version)
        )

    async def _send_error_response(self, status_code: int) -> None:
        """What h11 could not read. A coding that it does not know is the sender's mistake too, and no error of ours."""
        code = LARGE_HEADERS if status_code == LARGE_HEADERS.status else MALFORMED_REQUEST
        request_id = uuid4().hex
        body = json.dumps(code.document(f"{code.title}.", request_id)).encode()
        headers = [
            (b"content-type", MEDIA_TYPE.encode()),
            (b"content-length", str(len(body)).encode()),
            (b"connection", b"close"),
            (REQUEST_ID.lower().encode(), request_id.encode()),
            *self.config.response_headers("h11"),
        ]
        await self._send_h11_event(h11.Response(status_code=int(code.status), headers=headers))
        await self._send_h11_event(h11.Data(data=body))
        await self._send_h11_event(h11.EndOfMessage())
