"""The servers of one run, and what is asked of them: a database of its own for each part, and their counters."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path

from attrs import define, field, frozen

from nursery.cleanup import finish
from storage.connection import Connection
from storage.migrations import migrate
from storage.redis_client import open_redis
from storage.server import at_database, connect
from tayho.local.stack import LocalStack, local_stack
from tests.waiting import until

APPLICATION = "bench control"
TEMPLATE = "bench_migrated"
EMPTY = "template0"
QUIET_SECONDS = 20
DROP_SECONDS = 30

_BACKENDS = "SELECT count(*) FROM pg_stat_activity WHERE datname = $1 AND backend_type = 'client backend'"
_COUNTERS = """
SELECT xact_commit AS commits, pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint AS wal_bytes
FROM pg_stat_database WHERE datname = $1
"""
_DEAD = "SELECT coalesce(sum(n_dead_tup), 0)::bigint FROM pg_stat_user_tables WHERE schemaname = $1"


@frozen
class Counters:
    """What PostgreSQL has counted up to now: commits in one database, WAL of the whole server."""

    commits: int
    wal_bytes: int


@define
class Services:
    """A PostgreSQL and a Redis, shared by all sides, one side at a time."""

    stack: LocalStack
    _numbers: count[int] = field(factory=count, init=False)

    @property
    def redis_url(self) -> str:
        return self.stack.redis_url

    @property
    def folder(self) -> Path:
        """Where logs may be left; gone with the run."""
        return self.stack.database.service.folder

    @asynccontextmanager
    async def database(self, template: str) -> AsyncIterator[str]:
        """The URL of a new database, and a Redis with nothing in it."""
        name = f"bench_{next(self._numbers)}"
        async with open_redis(self.redis_url) as redis:
            await redis.ask_one(["FLUSHALL"])
        await self.execute(f"CREATE DATABASE {name} TEMPLATE {template}")
        try:
            yield at_database(self.stack.database_url, name)
        finally:
            drop = f"DROP DATABASE {name} WITH (FORCE)"
            await finish(self.execute, drop, seconds=DROP_SECONDS)

    async def settle(self, url: str) -> None:
        """Give every side the same start: tables analysed, dirty pages written."""
        async with control(url) as connection:
            await connection.execute("VACUUM (ANALYZE)")
            await connection.execute("CHECKPOINT")

    async def counters(self, url: str) -> Counters:
        """Complete only while nobody is connected to the database: a backend reports late, at the latest at its end."""
        await self.quiet(url)
        async with control(self.stack.database_url) as connection:
            row = await connection.fetchrow(_COUNTERS, _name(url))
        assert row is not None
        return Counters(row["commits"], row["wal_bytes"])

    async def dead_tuples(self, url: str, schema: str) -> int:
        await self.quiet(url)
        async with control(url) as connection:
            return await connection.fetchval(_DEAD, schema)

    async def quiet(self, url: str) -> None:
        """Wait until no client is connected to the database."""
        async with control(self.stack.database_url) as connection:

            async def is_quiet() -> bool:
                return await connection.fetchval(_BACKENDS, _name(url)) == 0

            await until(is_quiet, seconds=QUIET_SECONDS, what="every client to leave the database")

    async def execute(self, sql: str) -> None:
        """One statement outside the measured databases, such as those that make and drop them."""
        async with control(self.stack.database_url) as connection:
            await connection.execute(sql)


@asynccontextmanager
async def open_services() -> AsyncIterator[Services]:
    """Start the servers and migrate the database that tayho's parts are copied from. The bridge must be open."""
    async with local_stack() as stack:
        services = Services(stack)
        await services.execute(f"CREATE DATABASE {TEMPLATE} TEMPLATE {EMPTY}")
        await migrate(at_database(stack.database_url, TEMPLATE))
        await services.quiet(at_database(stack.database_url, TEMPLATE))
        yield services


@asynccontextmanager
async def control(url: str) -> AsyncIterator[Connection]:
    """One connection in which every statement is one commit."""
    async with connect(url, application_name=APPLICATION) as raw:
        yield Connection(raw, in_transaction=False)


def _name(url: str) -> str:
    return url.rpartition("/")[2]
