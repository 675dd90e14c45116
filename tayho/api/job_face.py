"""`GET /jobs/{id}/explain`: why a job is where it is, for a person or a program that has no shell here (DLV-14)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from http import HTTPStatus
from uuid import UUID

import structlog
import trio
from litestar import MediaType, Response, get
from litestar.handlers import HTTPRouteHandler
from litestar.params import FromPath

from storage.errors import StorageError
from tayho.api.problems import problem
from tayho.coordination.module import Explanation
from tayho.kernel.plain import plain

log = structlog.get_logger("tayho.api")

# Together with the wait for its turn.
DEADLINE_SECONDS = 2.0
# The connections of the process belong to its work.
AT_ONCE_MAX = 2


def explain_route(explain: Callable[[UUID], Awaitable[Explanation | None]]) -> HTTPRouteHandler:
    """The route. 404: there is no such job here; 503: PostgreSQL is away, or gave no answer in time."""
    turns = trio.CapacityLimiter(AT_ONCE_MAX)

    @get("/jobs/{job_id:uuid}/explain")
    async def explain_job(job_id: FromPath[UUID]) -> Response[object]:
        try:
            with trio.fail_after(DEADLINE_SECONDS):
                async with turns:
                    found = await explain(job_id)
        except (StorageError, trio.TooSlowError) as error:
            log.info("explain_unanswered", job_id=str(job_id), error=str(error))
            return _unanswered(HTTPStatus.SERVICE_UNAVAILABLE)
        if found is None:
            return _unanswered(HTTPStatus.NOT_FOUND)
        return Response(plain(found), media_type=MediaType.JSON, headers={"Cache-Control": "no-store"})

    return explain_job


def _unanswered(status: HTTPStatus) -> Response[object]:
    told = problem(status, {"Cache-Control": "no-store"})
    return Response(told.content, status_code=told.status_code, media_type=told.media_type, headers=told.headers)
