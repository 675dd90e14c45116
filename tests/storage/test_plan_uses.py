"""A connection's plans follow the growth of the tables that they were made for."""

from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from storage.connection import Connection
from storage.database import Database
from storage.plan_uses import PLAN_USES_MAX, PlanUses

JOIN = "SELECT count(*) FROM unnest($1::int[]) AS asked (id) JOIN grown USING (id)"
PLANNED = "SELECT name FROM pg_prepared_statements WHERE statement = $1"
# PostgreSQL plans a statement five times for its arguments before it keeps a plan.
UNTIL_KEPT = 6


async def look(connection: Connection) -> int:
    return await connection.fetchval(JOIN, [1, 2, 3])


async def kept_plan(connection: Connection) -> str:
    """The plan by which the statement would run now."""
    name = await connection.fetchval(PLANNED, JOIN)
    return "\n".join(row["QUERY PLAN"] for row in await connection.fetch(f"EXPLAIN EXECUTE {name} ('{{1}}')"))


@pytest.fixture
async def one_connection(database_url: str, bridge: None) -> AsyncIterator[Database]:
    """A database lent by one connection, with a table that is known to be empty."""
    async with Database.open(database_url, pool_size=1, application_name="tests") as database:
        async with database.connection() as connection:
            await connection.execute("CREATE TABLE grown (id int PRIMARY KEY)")
            await connection.execute("VACUUM (ANALYZE) grown")
        yield database


async def fill(database: Database) -> None:
    async with database.connection() as connection:
        await connection.execute("INSERT INTO grown SELECT generate_series(1, 50000)")


async def in_one_transaction(database: Database) -> str:
    async with database.transaction() as tx:
        await look(tx)
        return await kept_plan(tx)


async def by_itself(database: Database) -> str:
    async with database.connection() as connection:
        await look(connection)
        return await kept_plan(connection)


@pytest.mark.parametrize("use", [in_one_transaction, by_itself])
async def test_a_lent_connection_plans_anew_within_its_uses(
    one_connection: Database, use: Callable[[Database], Awaitable[str]]
) -> None:
    """Goal: a burst does not run for long by the plan of an empty table. Method: keep such a plan, fill the table, and
    use the connection as often as a plan may serve: then it goes to the rows by their key."""
    for _ in range(UNTIL_KEPT):
        await use(one_connection)
    assert "Index Cond" not in await use(one_connection)
    await fill(one_connection)
    assert "Index Cond" not in await use(one_connection)
    for _ in range(PLAN_USES_MAX):
        await use(one_connection)
    assert "Index Cond" in await use(one_connection)


async def test_a_kept_connection_plans_anew_within_its_uses(one_connection: Database) -> None:
    """Goal and method: as above, for a connection that one loop keeps."""
    async with one_connection.reserve() as kept:
        for _ in range(UNTIL_KEPT):
            await kept.run(look)
        assert "Index Cond" not in await kept.run(kept_plan)
        await fill(one_connection)
        assert "Index Cond" not in await kept.run(kept_plan)
        for _ in range(PLAN_USES_MAX):
            await kept.run(look)
        assert "Index Cond" in await kept.run(kept_plan)


def test_connections_that_are_gone_are_forgotten() -> None:
    """Goal: a process that reconnects for months keeps nothing of it. Method: very many connections, each used once."""
    plans = PlanUses(connections_max=4)
    for server_pid in range(10_000):
        assert not plans.is_worn(server_pid)
    assert len(plans._uses) <= 8  # pyright: ignore[reportPrivateUsage]
