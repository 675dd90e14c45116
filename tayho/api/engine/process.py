"""The engine of a running process, wired to its parts: what it listens on, and how it ends."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import cast

import structlog
import trio

from nursery.drain import Drain
from rpc.errors import RpcError
from rpc.methods import code
from storage.counters import Budget
from storage.errors import StorageError
from tayho.api.connections import Bounds
from tayho.api.engine import codes
from tayho.api.engine.document import openapi_document
from tayho.api.engine.entrance import App, Entrance
from tayho.api.engine.limits import WINDOW_SECONDS, Limits
from tayho.api.engine.page import page_of
from tayho.api.engine.routes import Face, application
from tayho.api.engine.service import SUBMISSION_SECONDS, IntentService
from tayho.api.engine.streams import STREAM_SECONDS_MAX
from tayho.api.engine.watching import Watchers
from tayho.api.problems import Code
from tayho.api.readiness import Reason
from tayho.api.serving import Listening, listening, serve_http
from tayho.config import Settings
from tayho.custody.module import Pseudonyms, recovered
from tayho.intents.module import Intents
from tayho.intents.types import IntentDomain
from tayho.kernel.address import Address
from tayho.parts import Parts, Served
from tayho.protocol.intents import permit_of
from tayho.refusals import EnvironmentRefused
from tayho.resources import Resources

log = structlog.get_logger("tayho.engine")

ROLE = "engine"
CONNECTIONS_MAX = 1_024
WATCHERS_MAX = 512
WATCHERS_OF_ONE_CLIENT_MAX = 16
RIPE_SECONDS = 300.0
# A stream that began in the last moment of a ripe connection ends in time.
BOUNDS = Bounds(CONNECTIONS_MAX, RIPE_SECONDS, RIPE_SECONDS + STREAM_SECONDS_MAX + 2 * SUBMISSION_SECONDS, None)
# How long a draining replica still answers, so that whoever sends to it learns to send elsewhere.
ANSWERING_SECONDS = 1.0
GRACE_SECONDS = 2 * SUBMISSION_SECONDS


@asynccontextmanager
async def engine_face(parts: Parts) -> AsyncGenerator[Served]:
    """Listen on ENGINE_BIND from now on. Raises BindRefused, EnvironmentRefused where there is no protocol."""
    settings, resources = parts.settings, parts.resources
    if settings.protocol_address is None or settings.engine_identity is None:
        raise EnvironmentRefused([f"the role {ROLE} needs PROTOCOL_ADDRESS and ENGINE_IDENTITY_KEY"])
    domain = IntentDomain(settings.chain_id, settings.protocol_address)
    await _require_protocol(resources, domain.protocol)
    intents = Intents(
        resources.database,
        parts.coordination,
        domain,
        settings.environment,
        permit_of(resources.reads, domain),
        recovered,
    )
    try:
        await intents.register()
    except StorageError as error:
        raise EnvironmentRefused([str(error)]) from error
    identity = settings.engine_identity
    submissions = _limits(
        parts, "submissions", settings.engine_submissions_per_minute, codes.MANY_SUBMISSIONS, identity
    )
    statuses = _limits(parts, "statuses", settings.engine_statuses_per_minute, codes.MANY_STATUSES, identity)
    try:
        async with listening(settings.engine_bind, "ENGINE_BIND") as sockets:
            engine = Engine(intents, domain, submissions, statuses, parts.drain, sockets)

            async def serve() -> None:
                async with trio.open_nursery() as tasks:
                    tasks.start_soon(intents.run, name="intents in")
                    await engine.serve()
                    tasks.cancel_scope.cancel()

            yield Served(serve, engine.ended)
    finally:
        identity.wipe()


class Engine:
    """One replica of the engine."""

    def __init__(
        self,
        intents: Intents,
        domain: IntentDomain,
        submissions: Limits,
        statuses: Limits,
        drain: Drain,
        sockets: Listening,
    ) -> None:
        self._drain = drain
        self._sockets = sockets
        self._limits = (submissions, statuses)
        self._ended = trio.Event()
        self._service = IntentService(intents, domain)
        self.watchers = Watchers(
            intents.statuses, watchers_max=WATCHERS_MAX, of_one_client_max=WATCHERS_OF_ONE_CLIENT_MAX
        )
        document = openapi_document()
        face = Face(
            self._service,
            submissions,
            statuses,
            self.watchers,
            drain,
            json.dumps(document).encode(),
            page_of(document).encode(),
        )
        # The framework types what it is called with more closely than ASGI does.
        self._app = Entrance(cast("App", application(face)), drain)

    async def ended(self) -> None:
        """Return once the drain was requested and what came in before it is answered."""
        await self._ended.wait()

    async def serve(self) -> None:
        """Serve until the drain is over: what came in before it is answered, and nothing is begun after it."""
        log.info("engine_listening", bind=str(self._sockets.bind))
        async with trio.open_nursery() as tasks:
            for limits in self._limits:
                tasks.start_soon(limits.run, name="engine limits")
            tasks.start_soon(self._service.run, name="engine service")
            tasks.start_soon(self.watchers.run, name="engine watchers")
            await serve_http(
                self._app, self._sockets, shutdown=self._drained, bounds=BOUNDS, grace_seconds=GRACE_SECONDS
            )
            tasks.cancel_scope.cancel()
        self._ended.set()

    async def _drained(self) -> None:
        await self._drain.wait_requested()
        await trio.sleep(min(ANSWERING_SECONDS, self._drain.seconds_left))


async def engine_reasons(parts: Parts) -> list[Reason]:
    """Why the engine of this process should be sent nothing: without the chain no new intent is taken."""
    address = parts.settings.protocol_address
    if ROLE not in parts.settings.roles or address is None:
        return []
    try:
        has_code = await _has_code(parts.resources, address)
    except RpcError as error:
        return [Reason("rpc", str(error))]
    return [] if has_code else [Reason("protocol", _no_code(address))]


async def _require_protocol(resources: Resources, protocol: Address) -> None:
    try:
        has_code = await _has_code(resources, protocol)
    except RpcError as error:
        raise EnvironmentRefused([str(error)]) from error
    if not has_code:
        raise EnvironmentRefused([_no_code(protocol)])


async def _has_code(resources: Resources, protocol: Address) -> bool:
    return bool(await resources.reads.ask(code(protocol.value, "latest")))


def _no_code(protocol: Address) -> str:
    return f"PROTOCOL_ADDRESS: there is no contract at {protocol}: deploy it, or name the one that is"


def _limits(parts: Parts, name: str, most: int, refused_as: Code, pseudonyms: Pseudonyms) -> Limits:
    settings: Settings = parts.settings
    # Without the queues' hash tag: in a cluster the clients are spread over its nodes.
    prefix = f"{settings.queue_prefix.strip('{}')}:{settings.environment}-{settings.chain_id}"
    budget = Budget(parts.resources.redis, prefix=prefix, name=name, most=most, window_seconds=WINDOW_SECONDS)
    return Limits(budget, refused_as, pseudonyms, settings.engine_trusted_proxies)
