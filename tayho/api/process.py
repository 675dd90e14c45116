"""The HTTP face of a running process, wired to its parts: its health, and questions about jobs."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial

import structlog
import trio

from rpc.errors import RpcError
from rpc.methods import block_number
from storage.errors import StorageError
from storage.migrations import schema_problem
from tayho.api.engine.process import ROLE as ENGINE
from tayho.api.engine.process import engine_face, engine_reasons
from tayho.api.gauges import Gauges, Lanes
from tayho.api.health import Health
from tayho.api.heart import Heart
from tayho.api.job_face import explain_route
from tayho.api.readiness import Readiness, Reason
from tayho.api.serving import listening, serve_http
from tayho.coordination.module import Explainer
from tayho.coordination.types import FAIR_SHARE
from tayho.parts import Parts, Served
from tayho.transactions.module import pool_look
from tayho.transactions.types import Halt

log = structlog.get_logger("tayho.api")


@asynccontextmanager
async def process_face(parts: Parts) -> AsyncGenerator[Served]:
    """What a process of these roles shows to the outside. Raises EnvironmentRefused."""
    async with AsyncExitStack() as opened:
        faces = [await opened.enter_async_context(health_face(parts))]
        if ENGINE in parts.settings.roles:
            faces.append(await opened.enter_async_context(engine_face(parts)))

        async def serve() -> None:
            async with trio.open_nursery() as tasks:
                for face in faces:
                    tasks.start_soon(face.serve)

        async def ended() -> None:
            for face in faces:
                await face.ended()

        yield Served(serve, ended)


@asynccontextmanager
async def health_face(parts: Parts) -> AsyncGenerator[Served]:
    """Listen on HTTP_BIND from now on. Raises BindRefused."""
    instruments = parts.metrics.process
    heart = Heart(instruments.observe_loop)
    health = Health(
        heart,
        partial(readiness_of, parts),
        _gauges(parts).refresh,
        parts.metrics.render,
        [explain_route(_explainer(parts).explain)],
        show=lambda found: instruments.show_readiness(reason.check for reason in found.reasons),
    )
    async with listening(parts.settings.http_bind) as sockets:

        async def serve() -> None:
            async with trio.open_nursery() as tasks:
                tasks.start_soon(heart.beat, name="heart")
                tasks.start_soon(health.run, name="health questions")
                # Never told to stop: it answers `draining` until the process itself ends.
                tasks.start_soon(partial(serve_http, health.app, sockets, shutdown=trio.sleep_forever))
                log.info("http_listening", bind=str(sockets.bind))

        # Probes are never waited for.
        yield Served(serve, trio.lowlevel.checkpoint)


async def readiness_of(parts: Parts) -> Readiness:
    """Every reason why this process should get no work now (OPS-4)."""
    reasons = _drain_reasons(parts)
    reasons += await _database_reasons(parts)
    reasons += [Reason("redis", problem) for problem in await parts.resources.redis.check()]
    reasons += await engine_reasons(parts)
    if parts.transactions is not None:
        reasons += await _chain_reasons(parts)
        reasons += await halt_reasons(parts.transactions.halts, parts.settings.signing_role or "ROLE")
    return Readiness(tuple(reasons), await _warnings(parts))


def _drain_reasons(parts: Parts) -> list[Reason]:
    if parts.drain.requested:
        return [Reason("drain", f"draining: {parts.drain.reason}")]
    if parts.coordination.is_drained:
        undrain = f"tayho jobs undrain {parts.settings.instance_id}"
        return [Reason("drain", f"an operator drained this instance: `{undrain}` lets it take work again")]
    return []


async def _database_reasons(parts: Parts) -> list[Reason]:
    try:
        async with parts.resources.database.connection() as connection:
            problem = await schema_problem(connection)
    except StorageError as error:
        return [Reason("postgresql", str(error))]
    return [] if problem is None else [Reason("schema", problem)]


async def _chain_reasons(parts: Parts) -> list[Reason]:
    try:
        await parts.resources.reads.ask(block_number())
    except RpcError as error:
        return [Reason("rpc", str(error))]
    return []


async def halt_reasons(halts: Callable[[], Awaitable[list[Halt]]], role: str) -> list[Reason]:
    """Every open halt of the pool, with its evidence and the two commands that end it (TX-14)."""
    try:
        return [Reason("halt", _halt_text(halt, role)) for halt in await halts()]
    except StorageError:
        # Told by the check of PostgreSQL itself.
        return []


def _halt_text(halt: Halt, role: str) -> str:
    evidence = json.dumps(dict(halt.evidence), sort_keys=True)
    return (
        f"{halt.kind} since {halt.raised_at:%Y-%m-%d %H:%M:%S} UTC, found by {halt.raised_by}: {evidence}. Nothing is "
        f"signed, sent or finalised until one of two commands: `tayho world adopt {role}` where the chain is right and "
        f"this database is behind it, `tayho world restart {role}` where the chain began anew"
    )


async def _warnings(parts: Parts) -> tuple[Reason, ...]:
    """The pools of all live instances together against what the server can carry (OPS-4)."""
    try:
        wanted, limit = await parts.coordination.connections_wanted(parts.settings.database_pool_size)
    except StorageError:
        return ()
    if wanted <= limit:
        return ()
    text = f"the pools of all live instances want {wanted} connections and the server takes {limit}"
    return (Reason("postgresql", f"{text}: lower DATABASE_POOL_SIZE or put a pooler in front"),)


def _gauges(parts: Parts) -> Gauges:
    engine, settings = parts.transactions, parts.settings
    pool = partial(
        pool_look, parts.resources.database, settings.chain_id, settings.environment, settings.signing_role or ""
    )
    return Gauges(
        metrics=parts.metrics,
        pool=parts.resources.database,
        is_draining=lambda: parts.drain.requested or parts.coordination.is_drained,
        backlog=parts.coordination.backlog,
        ages=parts.coordination.ages_by_role,
        endpoints=parts.resources.reads.status,
        lanes=None if engine is None else Lanes(engine.lanes, engine.open_lineages, engine.halts, pool=pool),
        line=None if parts.relaying is None else parts.relaying.line.look,
    )


def _explainer(parts: Parts) -> Explainer:
    settings = parts.settings
    return Explainer(
        parts.resources.database,
        parts.resources.queue_of,
        settings.chain_id,
        settings.environment,
        fair_window=FAIR_SHARE * settings.queue_concurrency,
    )
