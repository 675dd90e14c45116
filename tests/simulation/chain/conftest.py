"""Servers of the machine, and its clocks."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

import pytest

from tests.services.postgres import MIGRATED, postgres_server
from tests.services.redis import redis_server
from tests.simulation.chain.clockwork import shorten
from tests.simulation.chain.driver import Servers
from tests.simulation.delivery.conftest import trust

NewServers = Callable[[], AbstractContextManager[Servers]]


@pytest.fixture(scope="module")
def new_servers() -> Iterator[NewServers]:
    """One PostgreSQL and one Redis for all schedules of this process, and a new database for each."""
    with postgres_server() as postgres, redis_server() as redis:
        trust(postgres)

        @contextmanager
        def servers() -> Iterator[Servers]:
            with postgres.database(MIGRATED) as url:
                yield Servers(url, redis.url)

        yield servers


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    shorten(monkeypatch)
