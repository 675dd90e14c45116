"""The routes: `POST /v1/intents`, `GET /v1/intents/{id}` and its events, and what describes them."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import ExitStack, contextmanager
from http import HTTPStatus
from typing import Any
from uuid import UUID

import trio
from attrs import frozen
from litestar import Litestar, MediaType, Request, Response, get, post
from litestar.exceptions import HTTPException
from litestar.handlers import HTTPRouteHandler
from litestar.params import FromPath
from litestar.response.base import ASGIResponse
from litestar.types import ASGIApp

from nursery.drain import Drain
from tayho.api.engine import codes
from tayho.api.engine.bodies import body_of
from tayho.api.engine.limits import Counted, Limits
from tayho.api.engine.refusals import (
    NEVER_STORED,
    RequestRefused,
    answer_to_defect,
    answer_to_framework,
    answer_to_refusal,
)
from tayho.api.engine.service import IntentService
from tayho.api.engine.streams import Stream
from tayho.api.engine.watching import Watchers
from tayho.api.engine.wire import accepted_document, status_document, version_of

INTENTS = "/v1/intents"
INTENT = "/v1/intents/{intent_id:str}"
EVENTS = "/v1/intents/{intent_id:str}/events"
DOCUMENT = "/openapi.json"
PAGE = "/docs"


@frozen
class Face:
    """What the routes act with."""

    service: IntentService
    submissions: Limits
    statuses: Limits
    watchers: Watchers
    drain: Drain
    # As they are served: the OpenAPI document, and its page.
    document: bytes
    page: bytes


def application(face: Face) -> Litestar:
    """The routes under the framework, whose own errors become problem documents too."""
    return Litestar(
        route_handlers=[_submit(face), _status(face), _events(face), *_described(face)],
        exception_handlers={
            RequestRefused: answer_to_refusal,
            HTTPException: answer_to_framework,
            Exception: answer_to_defect,
        },
        openapi_config=None,
        logging_config=None,
        # The framework would else take both from the environment, and answer with a traceback.
        debug=False,
        pdb_on_exception=False,
    )


def _submit(face: Face) -> HTTPRouteHandler:
    @post(INTENTS)
    async def submit_intent(request: Request[Any, Any, Any]) -> Response[dict[str, object]]:
        # Before the body is read: who is over his budget costs nothing more than this.
        counted = await face.submissions.spend(_peer(request), request.headers)
        with _telling(counted):
            _require_json(request)
            accepted = await face.service.submit(await body_of(request.receive))
        status = HTTPStatus.ACCEPTED if accepted.created else HTTPStatus.OK
        headers = {"Location": f"{INTENTS}/{accepted.job_id}"}
        return _json(accepted_document(accepted), counted, status=status, headers=headers)

    return submit_intent


def _status(face: Face) -> HTTPRouteHandler:
    @get(INTENT)
    async def read_intent(request: Request[Any, Any, Any], intent_id: FromPath[str]) -> Response[dict[str, object]]:
        # Before PostgreSQL is asked anything (INT-8).
        counted = await face.statuses.spend(_peer(request), request.headers)
        with _telling(counted):
            status = await face.service.status(_id_of(intent_id))
        return _json(status_document(status), counted)

    return read_intent


def _events(face: Face) -> HTTPRouteHandler:
    @get(EVENTS)
    async def stream_intent(request: Request[Any, Any, Any], intent_id: FromPath[str]) -> ASGIApp:
        counted = await face.statuses.spend(_peer(request), request.headers)
        with _telling(counted):
            status = await face.service.status(_id_of(intent_id))
        seen = request.headers.get("last-event-id", "")
        if status.is_final and seen == version_of(status):
            # What tells a client of events not to come back.
            return ASGIResponse(status_code=HTTPStatus.NO_CONTENT, headers={**NEVER_STORED, **counted.told})

        async def send_events(scope: Any, receive: Any, send: Any) -> None:
            with ExitStack() as place:
                with _telling(counted):
                    watcher = place.enter_context(face.watchers.watch(status.job_id, counted.client))
                await Stream(watcher, status, seen, face.drain, counted.told).send_all(scope, receive, send)

        return send_events

    return stream_intent


def _described(face: Face) -> list[HTTPRouteHandler]:
    @get(DOCUMENT, media_type=MediaType.JSON)
    async def openapi_document() -> bytes:
        await trio.lowlevel.checkpoint()
        return face.document

    @get(PAGE, media_type=MediaType.HTML)
    async def openapi_page() -> bytes:
        await trio.lowlevel.checkpoint()
        return face.page

    return [openapi_document, openapi_page]


@contextmanager
def _telling(counted: Counted) -> Generator[None]:
    """Let a refusal of what is counted tell of the budget too."""
    try:
        yield
    except RequestRefused as refusal:
        refusal.headers = {**counted.told, **refusal.headers}
        raise


def _require_json(request: Request[Any, Any, Any]) -> None:
    if request.content_type[0] != MediaType.JSON:
        raise RequestRefused(codes.OTHER_CONTENT, "Send the intent as application/json.")


def _id_of(text: str) -> UUID:
    """The id as we write it: another spelling of it is no second address. Raises RequestRefused."""
    try:
        found = UUID(text)
    except ValueError:
        found = None
    if found is None or str(found) != text:
        raise RequestRefused(codes.UNKNOWN_INTENT, "There is no intent of this id here.")
    return found


def _peer(request: Request[Any, Any, Any]) -> str | None:
    return None if request.client is None else request.client.host


def _json(
    document: dict[str, object],
    counted: Counted,
    *,
    status: HTTPStatus = HTTPStatus.OK,
    headers: Mapping[str, str] | None = None,
) -> Response[dict[str, object]]:
    whole = {**NEVER_STORED, **counted.told, **(headers or {})}
    return Response(document, status_code=status, media_type=MediaType.JSON, headers=whole)
