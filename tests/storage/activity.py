"""What the server sees of a pool, asked by a connection that is not of it."""

from collections.abc import Mapping

from storage.connection import Connection
from storage.database import Database
from storage.server import connect

_OTHERS = """
SELECT state, count(*)::integer AS backends FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'
GROUP BY state
"""


async def states(url: str) -> Mapping[str, int]:
    """How many other client connections of this database are in which state."""
    async with connect(url, application_name="tests activity") as raw:
        rows = await Connection(raw, in_transaction=False).fetch(_OTHERS)
    return {row["state"]: row["backends"] for row in rows}


async def is_running(url: str, statement: str) -> bool:
    """Whether some backend of this database is in the middle of exactly this statement."""
    async with connect(url, application_name="tests activity") as raw:
        return await Connection(raw, in_transaction=False).fetchval(
            "SELECT EXISTS (SELECT FROM pg_stat_activity"
            " WHERE datname = current_database() AND state = 'active' AND query = $1)",
            statement,
        )


async def elsewhere(url: str, sql: str) -> None:
    """Run a statement on a connection of its own."""
    async with connect(url, application_name="tests activity") as raw:
        await Connection(raw, in_transaction=False).execute(sql)


async def terminate_others(url: str) -> None:
    """Kill every other backend of this database, as an administrator or a failover does."""
    await elsewhere(
        url,
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE datname = current_database() AND pid <> pg_backend_pid()",
    )


async def pool_is_whole(database: Database, url: str) -> bool:
    """Every open connection of the pool is idle for the pool and for the server."""
    seen = await states(url)
    return database.idle == database.size == seen.get("idle", 0) and sum(seen.values()) == database.size
