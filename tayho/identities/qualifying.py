"""Proves what each login can and cannot do, by connecting as it: a line for each attribute and each denial (OPS-2)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NoReturn

from attrs import frozen

from storage.connection import Connection, Row
from storage.database import Database
from storage.errors import Refused, StorageError
from storage.logins import RowRule, memberships_of, owned_by
from storage.queries import Command, many
from tayho.identities.denied import TO_ALL, TO_SOME
from tayho.identities.privileges import Privileges, identities

_ATTRIBUTES = many("identities/qualify.attributes")
_CREATIONS = many("identities/qualify.creations")
_TABLES = many("identities/qualify.tables")
_ROUTINES = many("identities/qualify.routines")
_ROW_RULES = many("identities/qualify.row_rules")
_EVERYBODYS_ROW_RULES = many("identities/qualify.everybodys_row_rules")

_INSUFFICIENT_PRIVILEGE = "42501"
_PRIVILEGE = re.compile(r"([A-Z]+)(?: *\(([^)]*)\))?")


@frozen
class Proof:
    """One thing that must hold of a login; `found` says what is so instead, "" where it holds."""

    identity: str
    claim: str
    found: str = ""

    @property
    def holds(self) -> bool:
        return not self.found


async def qualify(identity: str, url: str) -> list[Proof]:
    """Connect as the identity's login and prove everything that is said of it. Changes nothing.

    What cannot even be asked is a proof that does not hold. Raises nothing of the server's own.
    """
    privileges = identities()[identity]
    try:
        async with Database.open(url, pool_size=1, application_name="tayho qualify") as database:
            async with database.transaction() as tx:
                asked = await _asked(tx)
            proofs = [Proof(identity, claim, found) for claim, found in _compared(identity, privileges, asked)]
            for denied in (*TO_ALL, *(TO_SOME[name] for name in privileges.denied)):
                found = await _tried(database, denied)
                proofs.append(Proof(identity, f"is refused: {denied.query.sql}", found))
    except StorageError as error:
        return [Proof(identity, "can connect, and be asked what it may do", str(error))]
    return [Proof(identity, "can connect, and be asked what it may do"), *proofs]


@frozen
class _Asked:
    """What the server says of the login."""

    attributes: Row
    memberships: Sequence[str]
    owned: Sequence[str]
    creations: Sequence[str]
    tables: Sequence[Row]
    routines: Sequence[str]
    row_rules: Sequence[Row]
    everybodys_row_rules: Sequence[Row]


async def _asked(tx: Connection) -> _Asked:
    (attributes,) = await _ATTRIBUTES(tx)
    login = str(attributes["login"])
    return _Asked(
        attributes,
        await memberships_of(tx, login),
        await owned_by(tx, login),
        [str(row["place"]) for row in await _CREATIONS(tx)],
        await _TABLES(tx),
        [str(row["name"]) for row in await _ROUTINES(tx)],
        await _ROW_RULES(tx),
        await _EVERYBODYS_ROW_RULES(tx),
    )


def _compared(identity: str, privileges: Privileges, asked: _Asked) -> Iterator[tuple[str, str]]:
    """Each claim, and what speaks against it: pure."""
    for attribute in ("superuser", "createdb", "createrole", "replication", "bypassrls"):
        yield f"is not {attribute.upper()}", f"it is {attribute.upper()}" if asked.attributes[attribute] else ""
    yield "is a member of no role", _unless_empty("it is a member of", asked.memberships)
    yield "owns nothing", _unless_empty("it owns", asked.owned)
    yield "may make nothing new", _unless_empty("it may create in", asked.creations)
    yield from _tables_compared(privileges, asked.tables)
    more = sorted(set(asked.routines) - set(privileges.routines))
    less = sorted(set(privileges.routines) - set(asked.routines))
    yield "may call its routines and no other", _differs(more, less)
    yield from _row_rules_compared(privileges.row_rules(identity), asked)


def _tables_compared(privileges: Privileges, tables: Sequence[Row]) -> Iterator[tuple[str, str]]:
    found = {str(row["name"]): {*row["privileges"], *row["of_columns"]} for row in tables}
    for name in sorted({*found, *privileges.tables}):
        wanted = _wanted(privileges.tables.get(name, ""))
        has = found.get(name, set[str]())
        claim = f"{name}: {privileges.tables[name]}" if wanted else f"{name}: nothing"
        yield " ".join(claim.split()), _differs(sorted(has - wanted), sorted(wanted - has))


def _wanted(said: str) -> set[str]:
    """`SELECT, INSERT` as two, and `SELECT (a, b)` as one privilege a column."""
    wanted: set[str] = set()
    for privilege, columns in _PRIVILEGE.findall(said):
        wanted |= {f"{privilege}({each.strip()})" for each in columns.split(",")} if columns else {privilege}
    return wanted


def _row_rules_compared(wanted: Sequence[RowRule], asked: _Asked) -> Iterator[tuple[str, str]]:
    login = str(asked.attributes["login"])
    found = {(str(row["name"]), str(row["table_name"])): row for row in asked.row_rules}
    for rule in wanted:
        row = found.pop((rule.name, rule.table), None)
        claim = f"{rule.table}: {rule.command} of rows where {rule.sees or rule.makes}"
        if row is None:
            yield claim, "there is no such policy"
        elif not row["is_heeded"]:
            yield claim, "the table's row security is off"
        else:
            yield claim, "" if row["digest"] == rule.digest(login) else "the policy is another one"
    others = [f"{name} of {table}" for name, table in found]
    others += [f"{row['name']} of {row['table_name']}, of everybody" for row in asked.everybodys_row_rules]
    yield "has no other policy", _unless_empty("there is", others)


class _TookEffect(Exception):
    """A statement was run that should have been refused. Leaving the transaction by it undoes it."""


async def _tried(database: Database, denied: Command) -> str:
    """Run it in a transaction that is rolled back: "" where the privilege for it is missing, else what came of it."""
    try:
        await _run_and_undo(database, denied)
    except _TookEffect:
        return "it was not refused"
    except Refused as error:
        if error.sqlstate == _INSUFFICIENT_PRIVILEGE:
            return ""
        return f"it was refused for another reason: {error.message}"


async def _run_and_undo(database: Database, denied: Command) -> NoReturn:
    async with database.transaction() as tx:
        await denied(tx)
        raise _TookEffect


def _differs(more: Sequence[str], less: Sequence[str]) -> str:
    said = [f"it has {', '.join(more)} beyond that"] if more else []
    return "; ".join([*said, *([f"it lacks {', '.join(less)}"] if less else [])])


def _unless_empty(words: str, names: Sequence[str]) -> str:
    return f"{words} {', '.join(names)}" if names else ""
