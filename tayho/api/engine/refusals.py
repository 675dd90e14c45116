"""A refused request, from where it is refused to the problem document that the client gets (RFC 9457)."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

import structlog
from litestar import Request, Response
from litestar.exceptions import HTTPException

from tayho.api.engine import codes
from tayho.api.problems import MEDIA_TYPE, Code

log = structlog.get_logger("tayho.engine")

NEVER_STORED = {"Cache-Control": "no-store"}
AGAIN_SECONDS = 1
_OF_STATUS = {
    HTTPStatus.NOT_FOUND: codes.UNKNOWN_ROUTE,
    HTTPStatus.METHOD_NOT_ALLOWED: codes.OTHER_METHOD,
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: codes.LARGE_BODY,
}


class RequestRefused(Exception):
    """The request was not carried out. `detail` is for the client, and repeats nothing that is not his."""

    def __init__(
        self,
        code: Code,
        detail: str,
        *,
        headers: Mapping[str, str] | None = None,
        members: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(f"{code.name}: {detail}")
        self.code = code
        self.detail = detail
        self.headers = dict(headers or {})
        # Members of the document beyond the standard's, such as the field that is wrong.
        self.members = dict(members or {})


def away(code: Code, detail: str) -> RequestRefused:
    """A refusal that has nothing to do with the request: it is worth asking again soon."""
    return RequestRefused(code, detail, headers={"Retry-After": str(AGAIN_SECONDS)})


def document_of(refusal: RequestRefused, request_id: str) -> dict[str, str | int]:
    """The problem document."""
    return refusal.code.document(refusal.detail, request_id, refusal.members)


def answer_to_refusal(request: Request[Any, Any, Any], error: RequestRefused) -> Response[dict[str, str | int]]:
    """Tell the client; an outage also goes to the log."""
    if error.code.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        log.warning("request_unanswered", code=error.code.name, cause=repr(error.__cause__ or error.detail))
    return Response(
        document_of(error, request.scope["state"]["request_id"]),
        status_code=error.code.status,
        media_type=MEDIA_TYPE,
        headers={**NEVER_STORED, **error.headers},
    )


def answer_to_framework(request: Request[Any, Any, Any], error: HTTPException) -> Response[dict[str, str | int]]:
    """What the framework refuses: an unknown route, a method. Its own words are not repeated: they quote the path."""
    code = _OF_STATUS.get(HTTPStatus(error.status_code), codes.MALFORMED_REQUEST)
    return answer_to_refusal(request, RequestRefused(code, f"{code.title}.", headers=error.headers))


def answer_to_defect(request: Request[Any, Any, Any], error: Exception) -> Response[dict[str, str | int]]:
    """Our own mistake: told to the log, not to the client."""
    log.error("request_failed", exc_info=error)
    return answer_to_refusal(request, RequestRefused(codes.DEFECT, f"{codes.DEFECT.title}; the log has this request."))
