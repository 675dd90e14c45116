"""Servers that a schedule may restart."""

import signal
from collections.abc import Iterator

import pytest

from tests.services.postgres import MIGRATED, PostgresServer, postgres_server
from tests.services.redis import redis_server
from tests.simulation.delivery.clockwork import shorten
from tests.simulation.delivery.driver import Servers


@pytest.fixture(scope="module")
def servers() -> Iterator[Servers]:
    """One PostgreSQL and one Redis for all schedules of this process."""
    with postgres_server() as postgres, postgres.database(MIGRATED) as url, redis_server() as redis:
        trust(postgres)
        yield Servers(postgres.server, url, redis)


def trust(postgres: PostgresServer) -> None:
    """Ask nobody for a password: a replica opens six connections, and each would hash for a fiftieth of a second."""
    (postgres.server.service.folder / "postgres" / "pg_hba.conf").write_text("host all all 127.0.0.1/32 trust\n")
    postgres.server.signal(signal.SIGHUP)


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    shorten(monkeypatch)
