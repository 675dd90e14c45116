"""What every request passes first and last: its id, the drain, and the count of what is under way."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, TypeAlias
from uuid import uuid4

import structlog
import trio

from nursery.drain import Drain
from tayho.api.engine import codes
from tayho.api.engine.bodies import ClientLeft, Receive
from tayho.api.engine.refusals import NEVER_STORED, away, document_of
from tayho.api.problems import MEDIA_TYPE, REQUEST_ID

Scope: TypeAlias = MutableMapping[str, Any]
Send: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]

_HEADER = REQUEST_ID.lower().encode()
_SANE_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


class Entrance:
    """Every answer carries the request's id, and so does every line that is logged on the way.

    From the drain on, nothing new is begun: who asks then is sent to another replica.
    """

    def __init__(self, app: App, drain: Drain) -> None:
        self._app = app
        self._drain = drain

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            # No server of ours speaks anything else.
            return
        request_id = _request_id(scope)
        scope["state"]["request_id"] = request_id

        async def send_named(event: MutableMapping[str, Any]) -> None:
            if event["type"] == "http.response.start":
                event["headers"] = [*event.get("headers", ()), (_HEADER, request_id.encode())]
                if self._drain.requested:
                    event["headers"].append((b"connection", b"close"))
            await send(event)

        with structlog.contextvars.bound_contextvars(request_id=request_id):
            if self._drain.requested:
                await _send_draining(request_id, send_named)
                return
            try:
                await self._app(scope, receive, send_named)
            except ClientLeft:
                await trio.lowlevel.checkpoint()


def _request_id(scope: Scope) -> str:
    """The client's or the proxy's, if it can stand in a log; one of ours otherwise."""
    for name, value in scope["headers"]:
        if name == _HEADER:
            text = value.decode("latin-1")
            if _SANE_ID.fullmatch(text) is not None:
                return text
            break
    return uuid4().hex


async def _send_draining(request_id: str, send: Send) -> None:
    refusal = away(codes.DRAINING, f"{codes.DRAINING.title}.")
    body = json.dumps(document_of(refusal, request_id)).encode()
    headers = {"Content-Type": MEDIA_TYPE, "Content-Length": str(len(body)), **NEVER_STORED, **refusal.headers}
    encoded = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": int(refusal.code.status), "headers": encoded})
    await send({"type": "http.response.body", "body": body, "more_body": False})
