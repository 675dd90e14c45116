"""Errors as problem documents (RFC 9457): a title and a status, and never a traceback."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

import structlog
from litestar import Request, Response
from litestar.exceptions import HTTPException

log = structlog.get_logger("tayho.api")

MEDIA_TYPE = "application/problem+json"


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
