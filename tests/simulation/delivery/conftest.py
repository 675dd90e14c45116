"""Servers that a schedule may restart."""

from collections.abc import Iterator

import pytest

from tests.services.postgres import MIGRATED, postgres_server
from tests.services.redis import redis_server
from tests.simulation.delivery.clockwork import shorten
from tests.simulation.delivery.driver import Servers


@pytest.fixture(scope="module")
def servers() -> Iterator[Servers]:
    """One PostgreSQL and one Redis for all schedules of this process."""
    with postgres_server() as postgres, postgres.database(MIGRATED) as url, redis_server() as redis:
        yield Servers(postgres.server, url, redis)


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    shorten(monkeypatch)
