"""The numbered files of sql/migrations, and what is to be done about a database: pure."""

import hashlib
import re
from collections.abc import Sequence
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Final

from attrs import field, frozen

_FILE: Final = re.compile(r"(?P<version>\d{4})_(?P<name>[a-z0-9_]+)\.sql")
_CONTRACT: Final = re.compile(r"--\s*contract\b")


class MigrationError(Exception):
    """The migrations and a database do not go together. The message says which, and what to do."""


class MigrationsMisnumbered(MigrationError):
    """The files do not count 0001, 0002, … without a gap or a double."""


class MigrationChanged(MigrationError):
    """A file differs from the one that was applied. Restore it, and put the change into a new migration."""


class SchemaAhead(MigrationError):
    """The database has migrations that this program does not know: a newer version was here. Run that one."""


class SchemaBehind(MigrationError):
    """The database lacks migrations that this program needs: run `tayho db migrate`."""


@frozen
class Migration:
    version: int
    name: str
    sql: str = field(repr=False)
    # SHA-256 of the file.
    checksum: bytes = field(repr=False)
    # The file's first line is `-- contract`: it may destroy or lock, because nothing uses the old form any more.
    contract: bool


@frozen
class Applied:
    """A row of the ledger."""

    version: int
    name: str
    checksum: bytes = field(repr=False)


def read_migrations(root: Traversable) -> tuple[Migration, ...]:
    """The migrations in `root`, by number.

    Raises:
        MigrationsMisnumbered: a file name is no migration's, or the numbers have a gap or a double.
    """
    found: list[Migration] = []
    for file in sorted(root.iterdir(), key=lambda file: file.name):
        if not file.name.endswith(".sql"):
            continue
        match = _FILE.fullmatch(file.name)
        if match is None:
            raise MigrationsMisnumbered(f"sql/migrations/{file.name}: a migration is named NNNN_what_it_does.sql.")
        content = file.read_bytes()
        sql = content.decode()
        found.append(
            Migration(
                version=int(match["version"]),
                name=match["name"],
                sql=sql,
                checksum=hashlib.sha256(content).digest(),
                contract=_CONTRACT.match(sql) is not None,
            )
        )
    for expected, migration in enumerate(found, start=1):
        if migration.version != expected:
            raise MigrationsMisnumbered(
                f"sql/migrations/{migration.version:04}_{migration.name}.sql stands where {expected:04} is due: "
                "the numbers must have no gap and no double."
            )
    return tuple(found)


def installed() -> tuple[Migration, ...]:
    """The migrations of this program. Raises MigrationsMisnumbered."""
    return read_migrations(files("sql") / "migrations")


def next_migration(migrations: Sequence[Migration], applied: Sequence[Applied]) -> Migration | None:
    """The migration that a database with these applied ones needs next; None when it is current.

    Raises:
        SchemaAhead: the database has one that is not among `migrations`.
        MigrationChanged: one was applied from another file.
    """
    for row, migration in zip(applied, migrations, strict=False):
        if row.version != migration.version or row.checksum != migration.checksum:
            raise MigrationChanged(
                f"migration {migration.version:04}_{migration.name} is not the one that was applied "
                f"({row.version:04}_{row.name}): restore the file, and put the change into a new migration."
            )
    if len(applied) > len(migrations):
        raise _ahead(applied[-1].version, len(migrations))
    return migrations[len(applied)] if len(applied) < len(migrations) else None


def refuse_other_version(found: int, needed: int) -> None:
    """Raises SchemaBehind or SchemaAhead unless the two are equal."""
    if found > needed:
        raise _ahead(found, needed)
    if found < needed:
        raise SchemaBehind(
            f"the database schema is at {found:04}, this program needs {needed:04}: run `tayho db migrate`."
        )


def _ahead(found: int, needed: int) -> SchemaAhead:
    return SchemaAhead(
        f"the database schema is at {found:04}, this program knows only {needed:04}: a newer version of it was here."
    )
