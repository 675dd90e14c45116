"""Reads `privileges.toml`: what each identity may do in the database (OPS-2, OPS-3)."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import cache
from importlib import resources

from attrs import frozen
from cattrs import Converter

from storage.logins import Login, RowRule

_documents = Converter(forbid_extra_keys=True)


@frozen
class Rows:
    """On which rows of some tables a command may work. `{table}` stands for the table's own name."""

    tables: tuple[str, ...]
    command: str
    sees: str | None = None
    makes: str | None = None


@frozen
class Privileges:
    """All that one identity may do. `denied` names statements that it must be refused."""

    meaning: str
    tables: Mapping[str, str]
    routines: tuple[str, ...] = ()
    rows: tuple[Rows, ...] = ()
    denied: tuple[str, ...] = ()

    def login(self, identity: str, name: str, password: str) -> Login:
        """The login of this name, with these privileges."""
        return Login(name, password, self.tables, self.routines, self.row_rules(identity))

    def row_rules(self, identity: str) -> tuple[RowRule, ...]:
        """One policy a table and command, named after both and the identity."""
        return tuple(
            RowRule(
                name=f"{identity}_{rows.command.lower()}_{table.partition('.')[2]}",
                table=table,
                command=rows.command,
                sees=_of(rows.sees, table),
                makes=_of(rows.makes, table),
            )
            for rows in self.rows
            for table in rows.tables
        )


@cache
def identities() -> Mapping[str, Privileges]:
    """Every identity by its name, in the order of the file."""
    text = resources.files("tayho.identities").joinpath("privileges.toml").read_text(encoding="utf-8")
    return {name: _documents.structure(table, Privileges) for name, table in tomllib.loads(text).items()}


def _of(condition: str | None, table: str) -> str | None:
    return None if condition is None else condition.replace("{table}", table.partition(".")[2])
