"""Reaching a PostgreSQL server: session settings, the writer among several hosts, the oldest version taken."""

import re
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final
from urllib.parse import parse_qs, quote, urlsplit

from nursery.asyncio_bridge import run_asyncio
from storage import driver
from storage.codecs import set_codecs
from storage.driver import RawConnection
from storage.errors import ServerTooOld, StorageError, StoreUnavailable
from storage.translation import TRANSLATED, cause_of, translated

OLDEST_MAJOR: Final = 16
CONNECT_SECONDS: Final = 10.0
# The server's own statement_timeout speaks first; this one is for a server that no longer answers at all.
SILENT_SERVER_SECONDS: Final = 5.0
# A transaction of ours never waits for anything but the database: longer than this is a bug that holds locks.
IDLE_IN_TRANSACTION_SECONDS: Final = 60
# Above the number of statements in sql/, so that each is parsed once per connection.
STATEMENTS_CACHED: Final = 512

# Whatever does not look exactly like this may hide a password in an unexpected place, and is not shown.
_URL: Final = re.compile(r"postgres(?:ql)?://(?:[^@/?#]*@)?(?P<target>[^@?#]*)(?:\?[^@]*)?")


def target_of(url: str) -> str:
    """Hosts and database of a PostgreSQL URL, for a person to read, without user and password."""
    match = _URL.fullmatch(url)
    return match["target"] if match else "the server that the URL names"


def at_database(url: str, name: str) -> str:
    """The same URL, for another database of its server."""
    return urlsplit(url)._replace(path=f"/{quote(name, safe='')}").geturl()


def connect_arguments(url: str, *, application_name: str, statement_timeout_seconds: float) -> dict[str, Any]:
    """What asyncpg's connect and create_pool need. A timeout of 0 lets statements run without limit (migrations)."""
    arguments: dict[str, Any] = {
        "dsn": url,
        "timeout": CONNECT_SECONDS,
        "statement_cache_size": STATEMENTS_CACHED,
        "server_settings": {
            "application_name": application_name,
            "timezone": "UTC",
            # What is asked often is cached: the planner must not take a read of a whole table for cheaper than a look
            # at a few hundred of its rows.
            "random_page_cost": "1.1",
            # A plan is kept for as long as its connection, also those of foreign keys. Made while a table is all but
            # empty it would read the table whole, and go on so while jobs by the ten thousand come in: until the
            # table is next analysed each of them would cost more than the one before.
            "enable_seqscan": "off",
            "statement_timeout": str(round(statement_timeout_seconds * 1000)),
            "idle_in_transaction_session_timeout": str(IDLE_IN_TRANSACTION_SECONDS * 1000),
        },
    }
    if statement_timeout_seconds > 0:
        arguments["command_timeout"] = statement_timeout_seconds + SILENT_SERVER_SECONDS
    if "target_session_attrs" not in parse_qs(urlsplit(url).query):
        # Of several hosts, take the writer; of one, refuse a standby at once instead of at the first write.
        arguments["target_session_attrs"] = "read-write"
    return arguments


@asynccontextmanager
async def connect(
    url: str, *, application_name: str, statement_timeout_seconds: float = 0
) -> AsyncGenerator[RawConnection]:
    """One connection outside any pool, with our codecs, to a server new enough. Needs an open bridge.

    Leaving cuts it off at once: the server rolls back whatever was open.

    Raises:
        StoreUnavailable: no server, no writer, wrong password; the text names the target, never the password.
        ServerTooOld: below PostgreSQL 16.
    """
    made: list[RawConnection] = []
    try:
        try:
            arguments = connect_arguments(
                url, application_name=application_name, statement_timeout_seconds=statement_timeout_seconds
            )
            await run_asyncio(_connect, arguments, made)
        except (*TRANSLATED, ValueError) as error:
            raise unreachable(url, error) from cause_of(error)
        refuse_old(made[0].get_server_version())
        yield made[0]
    finally:
        for raw in made:
            raw.terminate()


async def _connect(arguments: Mapping[str, Any], made: list[RawConnection]) -> None:
    # A list, because a connection that was made must not be lost when the cancellation comes in the same moment.
    made.append(await driver.connect(**arguments))
    await set_codecs(made[0])


def unreachable(url: str, error: Exception) -> StorageError:
    """The refusal for a connection that could not be opened."""
    if isinstance(error, ValueError) and not isinstance(error, OSError):
        # asyncpg's configuration errors quote parts of the URL, perhaps of a password with an unescaped sign in it.
        return StoreUnavailable("the PostgreSQL URL is malformed: escape special signs of user and password as %XX.")
    meaning = translated(error, connected=False, commits=False)
    reason = error if isinstance(error, OSError) and str(error) else meaning
    return StoreUnavailable(f"cannot use PostgreSQL at {target_of(url)}: {reason}")


def refuse_old(version: driver.ServerVersion) -> None:
    """Raises ServerTooOld below PostgreSQL 16."""
    if version.major < OLDEST_MAJOR:
        raise ServerTooOld(f"{version.major}.{version.micro}", OLDEST_MAJOR)
