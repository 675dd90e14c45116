"""Real servers for the tests: one PostgreSQL and one Redis a session, a fresh database and an empty Redis a test."""

from collections.abc import AsyncIterator, Iterator

import pytest
from hypothesis import HealthCheck, settings

from nursery.asyncio_bridge import open_bridge
from storage.database import Database
from tests.services.chain import LocalChain, local_chain
from tests.services.launch import Launched
from tests.services.postgres import EMPTY, MIGRATED, PostgresServer
from tests.services.postgres import postgres_server as run_postgres
from tests.services.redis import ask
from tests.services.redis import redis_server as run_redis

# Examples are judged by what they show, not by how busy the machine is.
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """The session's PostgreSQL."""
    with run_postgres() as server:
        yield server


@pytest.fixture
def database_url(postgres_server: PostgresServer) -> Iterator[str]:
    """A new database at the newest schema."""
    with postgres_server.database(MIGRATED) as url:
        yield url


@pytest.fixture
def empty_database_url(postgres_server: PostgresServer) -> Iterator[str]:
    """A new database with nothing in it."""
    with postgres_server.database(EMPTY) as url:
        yield url


@pytest.fixture(scope="session")
def redis_server() -> Iterator[Launched]:
    """The session's Redis."""
    with run_redis() as server:
        yield server


@pytest.fixture
def redis_url(redis_server: Launched) -> str:
    """The session's Redis, with nothing in it."""
    assert ask(redis_server.url, "FLUSHALL") == "+OK"
    return redis_server.url


@pytest.fixture
async def bridge() -> AsyncIterator[None]:
    """An open bridge to asyncio, for the fixtures and the test above it."""
    async with open_bridge():
        yield


@pytest.fixture
async def database(database_url: str, bridge: None) -> AsyncIterator[Database]:
    """A migrated database, opened with a pool of 4."""
    async with Database.open(database_url, pool_size=4, application_name="tests") as opened:
        yield opened


@pytest.fixture(scope="session")
def chain() -> Iterator[LocalChain]:
    """The session's EVM node, a block every half second. Tests share it: each has a database of its own, whose lanes
    begin where the last test's ended."""
    with local_chain() as running:
        yield running
