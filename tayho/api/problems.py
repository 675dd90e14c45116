"""Errors as problem documents (RFC 9457): a title and a status, and never a traceback."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

import structlog
from attrs import frozen
from litestar import Request, Response
from litestar.exceptions import HTTPException

log = structlog.get_logger("tayho.api")

MEDIA_TYPE = "application/problem+json"
REQUEST_ID = "X-Request-Id"


@frozen
class Code:
    """One refusal: its stable name, the status it comes with, and what it means to who asked."""

    name: str
    status: HTTPStatus
    title: str

    @property
    def type_uri(self) -> str:
        """What names the kind of problem for ever (RFC 9457)."""
        return f"urn:tayho:problem:{self.name}"

    def document(self, detail: str, request_id: str, members: Mapping[str, str] | None = None) -> dict[str, str | int]:
        """The problem document of one request, with members beyond the standard's."""
        return {
            "type": self.type_uri,
            "title": self.title,
            "status": int(self.status),
            "code": self.name,
            "detail": detail,
            "request_id": request_id,
            **(members or {}),
        }


# Told of what does not even reach an application.
MALFORMED_REQUEST = Code("request-malformed", HTTPStatus.BAD_REQUEST, "This is no HTTP/1.1 request")
LARGE_HEADERS = Code(
    "headers-too-large", HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "The headers are too large together"
)


def problem(status: int, headers: dict[str, str] | None = None) -> Response[dict[str, str | int]]:
    """The document of a status. It says nothing of the request: a path may hold what is not to be repeated."""
    body: dict[str, str | int] = {"type": "about:blank", "title": HTTPStatus(status).phrase, "status": status}
    return Response(body, status_code=status, media_type=MEDIA_TYPE, headers=headers)


def refused(_request: Request[Any, Any, Any], error: HTTPException) -> Response[dict[str, str | int]]:
    """What the framework refuses: an unknown path, a method, a body that is too large."""
    return problem(error.status_code, error.headers)


def failed(_request: Request[Any, Any, Any], error: Exception) -> Response[dict[str, str | int]]:
    """A defect of ours: told to the log, not to the caller."""
    log.error("request_failed", exc_info=error)
    return problem(HTTPStatus.INTERNAL_SERVER_ERROR)
