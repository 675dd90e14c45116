"""What a process stands on, opened in order and proven before anything is begun."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import cache

from attrs import field, frozen

from rpc.endpoint import Endpoint
from rpc.member_status import HedgeSeen
from rpc.observation import Observation
from rpc.pool import ReadPool
from rpc.truth import ChainTruth
from storage.database import Database
from storage.delivery import DeliveryQueue
from storage.errors import StorageError
from storage.migrations import owner_problem, schema_problem
from storage.redis_client import RedisServer, open_redis
from tayho.config import Settings
from tayho.refusals import EnvironmentRefused
from tayho.voters import error_of, truth_of, voter_problems


@frozen
class Resources:
    """Open and proven: a database at our schema, a Redis that keeps what it is given, endpoints of our chain."""

    database: Database
    redis: RedisServer
    reads: ReadPool
    writes: Endpoint
    truth: ChainTruth
    queue_of: Callable[[str], DeliveryQueue]


@frozen
class Urls:
    """Where everything is: as configured, or as local mode brought it up."""

    database_url: str = field(repr=False)
    redis_url: str = field(repr=False)
    rpc_url: str = field(repr=False)
    rpc_read_urls: tuple[str, ...] = field(repr=False)


@asynccontextmanager
async def open_resources(
    settings: Settings,
    urls: Urls,
    *,
    observe_rpc: Callable[[Observation], None] | None = None,
    observe_hedge: Callable[[HedgeSeen], None] | None = None,
) -> AsyncGenerator[Resources]:
    """Open everything, prove it, and close it in reverse. Raises EnvironmentRefused with every problem found.

    Ordinary reads go to the best endpoint of the pool; its members, each by itself, are the voters.
    """
    async with AsyncExitStack() as opened:
        problems: list[str] = []
        database = await _opened_database(opened, settings, urls.database_url, problems)
        redis = await opened.enter_async_context(open_redis(urls.redis_url))
        problems += await redis.check()
        writes = await opened.enter_async_context(
            Endpoint.open(urls.rpc_url, chain_id=settings.chain_id, observer=observe_rpc)
        )
        if (error := await error_of(writes)) is not None:
            problems.append(str(error))
        reads = await opened.enter_async_context(
            ReadPool.open(
                list(dict.fromkeys(urls.rpc_read_urls)),
                chain_id=settings.chain_id,
                cooldown_milliseconds=settings.rpc_circuit_cooldown_milliseconds,
                observer=observe_rpc,
                on_hedge=observe_hedge,
            )
        )
        problems += await voter_problems(settings, urls.rpc_read_urls, reads.members)
        if problems or database is None:
            raise EnvironmentRefused(list(dict.fromkeys(problems)))
        truth = truth_of(reads.members, on_dissent=reads.note_dissent, on_lie=reads.note_lie)
        yield Resources(database, redis, reads, writes, truth, queues_of(redis, settings))


async def _opened_database(
    opened: AsyncExitStack, settings: Settings, url: str, problems: list[str]
) -> Database | None:
    try:
        database = await opened.enter_async_context(
            Database.open(
                url,
                pool_size=settings.database_pool_size,
                application_name=f"tayho {settings.instance_id}",
            )
        )
        async with database.connection() as connection:
            problem = await schema_problem(connection)
            if problem is None and settings.is_live:
                problem = await owner_problem(connection)
    except StorageError as error:
        problems.append(str(error))
        return None
    if problem is not None:
        problems.append(problem)
    return database


def queues_of(redis: RedisServer, settings: Settings) -> Callable[[str], DeliveryQueue]:
    """One queue a role. Chain and environment are in its name, so that two worlds in one Redis never mix."""

    @cache
    def queue_of(role: str) -> DeliveryQueue:
        return DeliveryQueue(
            redis,
            prefix=settings.queue_prefix,
            name=queue_name(role, settings.environment, settings.chain_id),
            lock_seconds=settings.queue_lock_seconds,
        )

    return queue_of


def queue_name(role: str, environment: str, chain_id: int) -> str:
    """The BullMQ queue of a role."""
    return f"{role}-{environment}-{chain_id}"
