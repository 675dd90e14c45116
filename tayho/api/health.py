"""`/healthz`, `/readyz` and `/metrics`: what supervisors and collectors ask a process."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from http import HTTPStatus
from typing import TypeAlias

import trio
from attrs import asdict
from litestar import Litestar, MediaType, Response, get
from litestar.exceptions import HTTPException
from litestar.handlers import HTTPRouteHandler
from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4

from tayho.api.heart import Heart
from tayho.api.problems import failed, refused
from tayho.api.readiness import UNANSWERED, Readiness, never_raising, told_only
from tayho.api.shared_answer import SharedAnswer

DEADLINE_SECONDS = 2.0
KEPT_SECONDS = 1.0
BODY_BYTES_MAX = 1024
_NEVER_STORED = {"Cache-Control": "no-store"}

Document: TypeAlias = dict[str, object]


class Health:
    """The health face of one process: `app` is served, and `run` asks its questions."""

    def __init__(
        self,
        heart: Heart,
        readiness: Callable[[], Awaitable[Readiness]],
        refresh: Callable[[], Awaitable[None]],
        render: Callable[[], bytes],
        beside: Sequence[HTTPRouteHandler] = (),
        show: Callable[[Readiness], None] = lambda _readiness: None,
    ) -> None:
        """`refresh` brings the gauges of `render` up to date before a scrape; a late one is not waited for. `show` is
        told the readiness at each scrape. `beside` are routes that are served at the same address."""
        self._heart = heart
        self._render = render
        self._show = show
        self._readiness = SharedAnswer(
            never_raising(readiness), kept_seconds=KEPT_SECONDS, deadline_seconds=DEADLINE_SECONDS
        )
        self._refreshed = SharedAnswer(told_only(refresh), kept_seconds=KEPT_SECONDS, deadline_seconds=DEADLINE_SECONDS)
        self.app = Litestar(
            route_handlers=[*self._routes(), *beside],
            exception_handlers={HTTPException: refused, Exception: failed},
            openapi_config=None,
            logging_config=None,
            request_max_body_size=BODY_BYTES_MAX,
            # The framework would else take both from the environment, and answer with a traceback.
            debug=False,
            pdb_on_exception=False,
        )

    async def run(self) -> None:
        """Ask whatever a request wants to know, until cancelled."""
        async with trio.open_nursery() as questions:
            questions.start_soon(self._readiness.run, name="readiness")
            questions.start_soon(self._refreshed.run, name="gauges")

    def _routes(self) -> list[HTTPRouteHandler]:
        @get("/healthz")
        async def healthz() -> Response[Document]:
            await trio.lowlevel.checkpoint()
            if self._heart.is_stuck:
                silent_seconds = int(self._heart.silent_seconds)
                return _answer(HTTPStatus.SERVICE_UNAVAILABLE, {"status": "stuck", "silent_seconds": silent_seconds})
            return _answer(HTTPStatus.OK, {"status": "alive"})

        @get("/readyz")
        async def readyz() -> Response[Document]:
            found = await self._readiness.get() or UNANSWERED
            status = HTTPStatus.OK if found.is_ready else HTTPStatus.SERVICE_UNAVAILABLE
            return _answer(status, {"ready": found.is_ready, **asdict(found)})

        @get("/metrics")
        async def metrics() -> Response[bytes]:
            self._show(await self._readiness.get() or UNANSWERED)
            await self._refreshed.get()
            return Response(self._render(), media_type=CONTENT_TYPE_PLAIN_0_0_4, headers=_NEVER_STORED)

        return [healthz, readyz, metrics]


def _answer(status: HTTPStatus, document: Document) -> Response[Document]:
    return Response(document, status_code=status, media_type=MediaType.JSON, headers=_NEVER_STORED)
