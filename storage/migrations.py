"""Makes and checks the schema (OPS-1). Nothing else makes it: a process only asks for its version."""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from difflib import unified_diff
from importlib.resources import files
from itertools import islice
from typing import Final

from storage.connection import Connection
from storage.database import Database
from storage.errors import Conflict, Refused, SerializationLost
from storage.migration_files import (
    Applied,
    Migration,
    MigrationError,
    SchemaAhead,
    SchemaBehind,
    installed,
    next_migration,
    refuse_other_version,
)
from storage.queries import command, many, scalar
from storage.snapshot import snapshot_of
from storage.throw_away import throw_away_database

# How long a second runner waits for the first.
RUNNER_WAIT_SECONDS: Final = 600
# A statement that waits for a table's lock holds up everybody who comes after it: better to fail and try again.
TABLE_WAIT_SECONDS: Final = 5
_DIFFERENCE_LINES_MAX: Final = 40

_lock = command("storage/ledger.lock")
_bound_lock_wait = command("storage/ledger.bound_lock_wait")
_create_schema = command("storage/ledger.create_schema")
_create_ledger = command("storage/ledger.create_ledger")
_ledger_exists = scalar("storage/ledger.ledger_exists")
_applied = many("storage/ledger.applied")
_record = command("storage/ledger.record")
_version = scalar("storage/ledger.version")
_is_owner = scalar("storage/ledger.is_owner")


class MigrationFailed(MigrationError):
    """The server refused a migration. Nothing of it was applied; those before it stay."""


class SnapshotStale(MigrationError):
    """sql/schema.sql is not what the migrations make. The message shows where it differs."""


async def migrate(url: str) -> list[Migration]:
    """Apply what is missing, each migration in a transaction of its own with its row in the ledger; gives those done.

    Runs that overlap wait for one another and all succeed.

    Raises:
        MigrationsMisnumbered, MigrationChanged, SchemaAhead: the files and the database do not go together.
        MigrationFailed: the server refused one.
        CommitUnknown: the answer to a commit was lost. Run it again: the ledger knows.
        StoreUnavailable: the server cannot be used.
    """
    migrations = installed()
    done: list[Migration] = []
    async with _opened(url) as database:
        while (migration := await _apply_next(database, migrations)) is not None:
            done.append(migration)
    return done


async def check(url: str | None) -> int:
    """Prove that files, snapshot and database agree; gives the version. Without `url` only the files are looked at.

    Needs a login that may create databases: the migrations are tried in one that is dropped again. A database without
    a ledger passes, because nothing was promised about it.

    Raises:
        MigrationsMisnumbered: the numbers of the files have a gap.
        SnapshotStale: sql/schema.sql differs from what the migrations make.
        MigrationChanged, SchemaAhead, SchemaBehind: the database differs.
    """
    migrations = installed()
    if url is None:
        return len(migrations)
    _refuse_difference(committed_snapshot(), await fresh_snapshot(url))
    async with _opened(url) as database, database.connection() as connection:
        applied = await _ledger(connection)
    next_migration(migrations, applied)
    if applied:
        refuse_other_version(len(applied), len(migrations))
    return len(migrations)


async def snapshot(url: str) -> str:
    """The schema of the database at `url`, as text."""
    async with _opened(url) as database:
        return await snapshot_of(database)


async def fresh_snapshot(url: str) -> str:
    """The schema that the migrations make, tried on the server of `url`: what sql/schema.sql must hold."""
    async with throw_away_database(url) as empty:
        await migrate(empty)
        return await snapshot(empty)


def committed_snapshot() -> str:
    """The text of sql/schema.sql; empty where there is none yet."""
    file = files("sql") / "schema.sql"
    return file.read_text(encoding="utf-8") if file.is_file() else ""


async def current_version(connection: Connection) -> int:
    """The number of the last migration of a database, 0 before the first."""
    return await _version(connection) if await _ledger_exists(connection) else 0


async def schema_problem(connection: Connection) -> str | None:
    """Why this program must not work on this database yet: its schema is behind or ahead. None if it is right."""
    try:
        refuse_other_version(await current_version(connection), len(installed()))
    except (SchemaBehind, SchemaAhead) as error:
        return str(error)
    return None


async def owner_problem(connection: Connection) -> str | None:
    """Why no process must run as this login: it could change the schema and its history. None if not."""
    if not await _is_owner(connection):
        return None
    return "DATABASE_URL is a login that owns the schema: give the process the one of RUNTIME_DATABASE_URL"


def _opened(url: str) -> AbstractAsyncContextManager[Database]:
    # Migrations take what time they need.
    return Database.open(url, pool_size=1, application_name="tayho migrations", statement_timeout_seconds=0)


async def _apply_next(database: Database, migrations: Sequence[Migration]) -> Migration | None:
    async with database.transaction() as connection:
        await _bound_lock_wait(connection, f"{RUNNER_WAIT_SECONDS}s")
        await _lock(connection)
        await _create_schema(connection)
        await _create_ledger(connection)
        migration = next_migration(migrations, await _ledger(connection))
        if migration is not None:
            await _bound_lock_wait(connection, f"{TABLE_WAIT_SECONDS}s")
            await _apply(connection, migration)
        return migration


async def _apply(connection: Connection, migration: Migration) -> None:
    try:
        await connection.execute(migration.sql)
    except (Refused, Conflict, SerializationLost) as error:
        raise MigrationFailed(
            f"migration {migration.version:04}_{migration.name} failed, nothing of it was applied: {error}"
        ) from error
    await _record(connection, migration.version, migration.name, migration.checksum)


async def _ledger(connection: Connection) -> list[Applied]:
    if not await _ledger_exists(connection):
        return []
    return [Applied(row["version"], row["name"], row["checksum"]) for row in await _applied(connection)]


def _refuse_difference(committed: str, made: str) -> None:
    lines = unified_diff(
        committed.splitlines(), made.splitlines(), "sql/schema.sql", "what the migrations make", n=1, lineterm=""
    )
    difference = "\n".join(islice(lines, _DIFFERENCE_LINES_MAX))
    if difference:
        raise SnapshotStale(f"sql/schema.sql is stale: write it anew with `tayho db snapshot`.\n{difference}")
