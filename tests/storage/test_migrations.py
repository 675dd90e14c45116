"""Migrations: each once, in order, all or nothing, and never behind anybody's back (OPS-1)."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from storage import migrations
from storage.connection import Connection
from storage.database import Database
from storage.errors import Refused
from storage.migration_files import (
    Applied,
    Migration,
    MigrationChanged,
    MigrationsMisnumbered,
    SchemaAhead,
    SchemaBehind,
    installed,
    next_migration,
    read_migrations,
)
from storage.migrations import MigrationFailed, SnapshotStale, check, current_version, migrate, schema_problem, snapshot
from tests.storage.activity import elsewhere

FIRST = "CREATE SCHEMA a; CREATE TABLE a.one (id integer PRIMARY KEY);"
SECOND = "CREATE TABLE a.two (id integer PRIMARY KEY); INSERT INTO a.two VALUES (1);"

Install = Callable[..., None]
Check = Callable[[str], Awaitable[None]]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Makes the given texts the program's migrations, numbered from 1."""

    def write(*texts: str) -> None:
        for file in tmp_path.iterdir():
            file.unlink()
        for number, text in enumerate(texts, start=1):
            (tmp_path / f"{number:04}_step.sql").write_text(text)
        monkeypatch.setattr(migrations, "installed", lambda: read_migrations(tmp_path))

    return write


@pytest.fixture
def check_database(monkeypatch: pytest.MonkeyPatch) -> Check:
    """`check`, with the snapshot taken as committed that the installed migrations make."""

    async def run(url: str) -> None:
        fresh = await migrations.fresh_snapshot(url)
        monkeypatch.setattr(migrations, "committed_snapshot", lambda: fresh)
        await check(url)

    return run


@asynccontextmanager
async def _connected(url: str) -> AsyncGenerator[Connection]:
    async with (
        Database.open(url, pool_size=1, application_name="tests") as database,
        database.connection() as connection,
    ):
        yield connection


async def _scalar(url: str, sql: str) -> object:
    async with _connected(url) as connection:
        return await connection.fetchval(sql)


async def _version(url: str) -> int:
    async with _connected(url) as connection:
        return await current_version(connection)


async def _problem(url: str) -> str | None:
    async with _connected(url) as connection:
        return await schema_problem(connection)


async def test_only_what_is_missing_is_applied(empty_database_url: str, bridge: None, install: Install) -> None:
    """Goal: each migration runs once, in order, and the ledger says what, when and by whom.

    Method: migrate with one file, again, and with a second one.
    """
    url = empty_database_url
    assert await _version(url) == 0
    install(FIRST)
    assert [migration.version for migration in await migrate(url)] == [1]
    assert await migrate(url) == []
    install(FIRST, SECOND)
    assert [migration.version for migration in await migrate(url)] == [2]
    assert await _version(url) == 2
    assert await _scalar(url, "SELECT count(*)::integer FROM a.two") == 1
    recorded = (
        "SELECT bool_and(applied_by = session_user AND name = 'step' AND octet_length(checksum) = 32"
        " AND applied_at > now() - interval '1 minute') FROM tayho.schema_migrations"
    )
    assert await _scalar(url, recorded) is True


async def test_overlapping_runs_all_succeed(empty_database_url: str, bridge: None, install: Install) -> None:
    """Goal: two operators at once do no harm. Method: four runs in parallel, of migrations that take their time."""
    install(*(f"CREATE TABLE t{number} (); SELECT pg_sleep(0.1)" for number in range(4)))
    done: list[int] = []

    async def run() -> None:
        done.extend([migration.version for migration in await migrate(empty_database_url)])

    async with trio.open_nursery() as runs:
        for _ in range(4):
            runs.start_soon(run)
    assert sorted(done) == [1, 2, 3, 4]


@pytest.mark.parametrize("broken", ["CREATE TABLE a.three (); SELECT 1 / 0", "CREATE TABLE a.three (); SELEC"])
async def test_a_failed_migration_leaves_nothing(
    empty_database_url: str, bridge: None, install: Install, broken: str
) -> None:
    """Goal: a migration is all or nothing, and those before it stay. Method: the second of two fails at its end."""
    install(FIRST, broken)
    with pytest.raises(MigrationFailed, match="0002_step failed, nothing of it was applied"):
        await migrate(empty_database_url)
    assert await _version(empty_database_url) == 1
    assert await _scalar(empty_database_url, "SELECT to_regclass('a.three')") is None
    install(FIRST, SECOND)
    assert [migration.version for migration in await migrate(empty_database_url)] == [2]


async def test_a_migration_waits_briefly_for_a_table(
    empty_database_url: str, bridge: None, install: Install, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Goal: a migration does not queue behind a long transaction, where it would block everybody else.

    Method: hold a row lock while a migration wants the whole table.
    """
    monkeypatch.setattr(migrations, "TABLE_WAIT_SECONDS", 1)
    install(FIRST)
    await migrate(empty_database_url)
    install(FIRST, "ALTER TABLE a.one ADD COLUMN more integer")
    async with (
        Database.open(empty_database_url, pool_size=1, application_name="tests") as database,
        database.transaction() as holder,
    ):
        await holder.execute("INSERT INTO a.one VALUES (1)")
        with trio.fail_after(5), pytest.raises(MigrationFailed, match="55P03"):
            await migrate(empty_database_url)


async def test_a_changed_file_is_refused(
    empty_database_url: str, bridge: None, install: Install, check_database: Check
) -> None:
    """Goal: history is not rewritten, not even by a comment. Method: change the first file after it was applied."""
    install(FIRST)
    await migrate(empty_database_url)
    install(f"{FIRST} -- harmless", SECOND)
    for refused in (migrate, check_database):
        with pytest.raises(MigrationChanged, match="0001_step"):
            await refused(empty_database_url)
    assert await _version(empty_database_url) == 1


async def test_behind_and_ahead(empty_database_url: str, bridge: None, install: Install, check_database: Check) -> None:
    """Goal: a process and a database of different versions find out, in one line. Method: each way round."""
    url = empty_database_url
    install(FIRST)
    problem = await _problem(url)
    assert problem is not None
    assert "is at 0000, this program needs 0001: run `tayho db migrate`" in problem
    await migrate(url)
    assert await _problem(url) is None
    install(FIRST, SECOND)
    with pytest.raises(SchemaBehind):
        await check_database(url)
    await migrate(url)
    install(FIRST)
    problem = await _problem(url)
    assert problem is not None
    assert "is at 0002, this program knows only 0001" in problem
    for refused in (migrate, check_database):
        with pytest.raises(SchemaAhead):
            await refused(url)


async def test_check_of_the_product(database_url: str, bridge: None) -> None:
    """Goal: the committed snapshot is what the migrations make, on this server's version too.

    Method: `check` itself, on a migrated database; afterwards its throw-away databases are gone.
    """
    assert await check(database_url) == len(installed()) == await check(None)
    names = "SELECT count(*)::integer FROM pg_database WHERE datname LIKE 'tayho\\_check\\_%'"
    assert await _scalar(database_url, names) == 0


async def test_a_stale_snapshot_is_refused(database_url: str, bridge: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: a snapshot that lags is refused, and the difference shown. Method: one column less in the committed one."""
    fresh = await migrations.fresh_snapshot(database_url)
    monkeypatch.setattr(migrations, "committed_snapshot", lambda: fresh.replace("    applied_by text", "    by text"))
    with pytest.raises(SnapshotStale, match=r"\+    applied_by text"):
        await check(database_url)


async def test_the_migrated_database_is_the_snapshot(database_url: str, bridge: None) -> None:
    """Goal: a snapshot of any migrated database equals the committed file. Method: take one of the test's own."""
    assert await snapshot(database_url) == migrations.committed_snapshot()


async def test_a_login_without_the_right_is_told(empty_database_url: str, bridge: None, install: Install) -> None:
    """Goal: a login that may not make schemas is refused by the server, and by us in words. Method: such a login."""
    install(FIRST)
    await elsewhere(empty_database_url, "DROP ROLE IF EXISTS plain; CREATE ROLE plain LOGIN PASSWORD 'plain'")
    scheme, _, rest = empty_database_url.partition("://")
    plain = f"{scheme}://plain:plain@{rest.rpartition('@')[2]}"
    with pytest.raises(Refused, match="42501"):
        await migrate(plain)
    await elsewhere(empty_database_url, "DROP ROLE plain")


def test_numbers_have_no_gap(tmp_path: Path) -> None:
    """Goal: a gap, a double or a strange name is refused. Method: each; files that are no SQL are left alone."""
    (tmp_path / "README.md").write_text("no migration")
    (tmp_path / "0001_first.sql").write_text("-- contract\nDROP TABLE a")
    (tmp_path / "0002_second.sql").write_text("SELECT 1")
    assert [(one.version, one.name, one.contract) for one in read_migrations(tmp_path)] == [
        (1, "first", True),
        (2, "second", False),
    ]
    (tmp_path / "0002_third.sql").write_text("SELECT 1")
    with pytest.raises(MigrationsMisnumbered, match=r"0002_third\.sql stands where 0003 is due"):
        read_migrations(tmp_path)
    (tmp_path / "0002_third.sql").rename(tmp_path / "0004_third.sql")
    with pytest.raises(MigrationsMisnumbered, match=r"0004_third\.sql stands where 0003 is due"):
        read_migrations(tmp_path)
    (tmp_path / "0004_third.sql").rename(tmp_path / "3_third.sql")
    with pytest.raises(MigrationsMisnumbered, match=r"NNNN_what_it_does\.sql"):
        read_migrations(tmp_path)


def _migration(version: int) -> Migration:
    return Migration(version, f"m{version}", "", bytes([version]), contract=False)


def test_next_migration() -> None:
    """Goal: what is to be done follows from files and ledger alone. Method: every relation of the two."""
    files = [_migration(1), _migration(2)]
    first, second = Applied(1, "m1", b"\1"), Applied(2, "m2", b"\2")
    assert next_migration(files, []) == files[0]
    assert next_migration(files, [first]) == files[1]
    assert next_migration(files, [first, second]) is None
    with pytest.raises(SchemaAhead):
        next_migration(files, [first, second, Applied(3, "m3", b"\3")])
    with pytest.raises(MigrationChanged):
        next_migration(files, [Applied(1, "m1", b"\7")])
    with pytest.raises(MigrationChanged):
        next_migration(files, [second])
