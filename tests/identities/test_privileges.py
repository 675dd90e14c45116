"""The privileges are enough for every statement that we have, and no more than that (OPS-2)."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from storage.connection import Connection
from storage.errors import Refused
from storage.queries import Query, all_queries
from storage.server import connect
from tayho.identities.privileges import identities
from tests.identities.conftest import Logins

INSUFFICIENT_PRIVILEGE = "42501"
# Of the migrating login, and of `db qualify`.
NOT_OF_PROCESSES = ("storage/", "identities/")
# Needed by none of these statements: by triggers, by functions that a producer calls, and by every start.
NEEDED_INSIDE = {("tayho.transitions", "SELECT"), ("tayho.roles", "SELECT"), ("tayho.schema_migrations", "SELECT")}


def statements() -> Iterator[Query]:
    for ref, query in sorted(all_queries().items()):
        if not ref.startswith(NOT_OF_PROCESSES) and re.search(r"\b(SELECT|INSERT|UPDATE|DELETE)\b", query.sql):
            yield query


async def explained(connection: Connection, sql: str) -> str:
    """ "" where the login may run it, else what the server says. EXPLAIN asks for the same privileges as the run."""
    await connection.execute("SAVEPOINT tried")
    try:
        await connection.execute(f"EXPLAIN (GENERIC_PLAN) {sql}")
    except Refused as error:
        await connection.execute("ROLLBACK TO tried")
        if error.sqlstate == INSUFFICIENT_PRIVILEGE:
            return error.message
        raise
    await connection.execute("RELEASE tried")
    return ""


async def test_the_runtime_login_may_run_every_statement(logins: Logins) -> None:
    """Goal: no process finds a privilege missing at 3 a.m. Method: plan every statement of `sql/` as the login."""
    missing: dict[str, str] = {}
    async with connect(logins.urls["runtime"], application_name="tests") as raw:
        connection = Connection(raw, in_transaction=True)
        await connection.execute("BEGIN")
        tried = 0
        for query in statements():
            tried += 1
            said = await explained(connection, query.sql)
            if said:
                missing[query.ref] = said
    assert missing == {}
    assert tried >= 150


async def test_no_privilege_of_the_runtime_login_is_too_many(logins: Logins) -> None:
    """Goal: what is granted is used. Method: take each privilege of each table away by itself; some statement over that
    table is refused then."""
    of_table: dict[str, list[Query]] = {}
    granted = identities()["runtime"].tables
    for query in statements():
        for table in granted:
            if table in query.sql:
                of_table.setdefault(table, []).append(query)
    unused: list[tuple[str, str]] = []
    name = logins.names["runtime"]
    async with connect(logins.owner_url, application_name="tests") as raw:
        connection = Connection(raw, in_transaction=True)
        await connection.execute("BEGIN")
        for table, said in granted.items():
            for privilege in re.findall(r"[A-Z]+(?: \([^)]*\))?", said):
                await connection.execute("SAVEPOINT granted")
                await connection.execute(f"REVOKE {privilege} ON {table} FROM {name}")
                await connection.execute(f"SET LOCAL ROLE {name}")
                for query in of_table.get(table, []):
                    if await explained(connection, query.sql):
                        break
                else:
                    unused.append((table, privilege))
                await connection.execute("ROLLBACK TO granted")
    assert set(unused) - NEEDED_INSIDE == set()


def in_order(line: str) -> str:
    """A line of a plan, with the parts of a filter sorted: which is looked at first is no other plan."""
    head, said, conditions = line.partition("Filter: ")
    return head + said + " AND ".join(sorted(re.sub("[()]", "", conditions).split(" AND ")))


async def test_row_rules_change_no_plan(logins: Logins) -> None:
    """Goal: the row rules of the auditor cost the others nothing. Method: every statement has the same plan for the
    owner, whom no rule concerns, and for the runtime login, but for the order in which a filter is looked at."""
    other: dict[str, str] = {}
    async with connect(logins.owner_url, application_name="tests") as raw:
        connection = Connection(raw, in_transaction=True)

        async def plan(query: Query, login: str) -> str:
            await connection.execute(f"SET LOCAL ROLE {login}")
            await connection.execute(f"PREPARE planned AS {query.sql}")
            arguments = f"({', '.join(['NULL'] * query.parameters)})" if query.parameters else ""
            rows = await connection.fetch(f"EXPLAIN (COSTS OFF) EXECUTE planned {arguments}")
            await connection.execute("DEALLOCATE planned")
            return "\n".join(in_order(str(row["QUERY PLAN"])) for row in rows)

        await connection.execute("BEGIN")
        await connection.execute("SET LOCAL plan_cache_mode = force_generic_plan")
        for query in statements():
            of_owner, of_runtime = await plan(query, "NONE"), await plan(query, logins.names["runtime"])
            if of_runtime != of_owner:
                other[query.ref] = f"{of_owner}\n---\n{of_runtime}"
    assert other == {}


HISTORY = (
    "coordination.operator_actions",
    "transactions.broadcasts",
    "transactions.events",
    "transactions.findings",
    "transactions.foreign_nonces",
    "transactions.reorganisations",
    "transactions.retirement_checks",
    "transactions.successions",
)


@pytest.mark.parametrize("identity", identities())
def test_history_is_written_once(identity: str) -> None:
    """Goal: no login can change what happened (I12). Method: read its privileges over every table of history."""
    tables = identities()[identity].tables
    assert all(set(tables[table].split(", ")) <= {"SELECT", "INSERT"} for table in HISTORY if table in tables)
    assert {table for table in tables if "TRUNCATE" in tables[table]} == set()
