"""A database that exists for one block of code, to try the migrations in."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Final
from uuid import uuid4

from nursery.cleanup import finish
from storage.database import Database
from storage.queries import scalar
from storage.server import at_database

_DROP_SECONDS: Final = 30.0

_create_statement = scalar("storage/throw_away.create_statement")
_drop_statement = scalar("storage/throw_away.drop_statement")


@asynccontextmanager
async def throw_away_database(url: str) -> AsyncGenerator[str]:
    """The URL of a new, empty database `tayho_check_…` on the server of `url`, dropped afterwards.

    Raises:
        Refused: the login may not create databases.
        StoreUnavailable: the server cannot be used.
    """
    name = f"tayho_check_{uuid4().hex}"
    async with Database.open(url, pool_size=1, application_name="tayho check", statement_timeout_seconds=0) as server:
        try:
            await _create(server, name)
            yield at_database(url, name)
        finally:
            await finish(_drop, server, name, seconds=_DROP_SECONDS)


async def _create(server: Database, name: str) -> None:
    async with server.connection() as connection:
        await connection.execute(await _create_statement(connection, name))


async def _drop(server: Database, name: str) -> None:
    async with server.connection() as connection:
        await connection.execute(await _drop_statement(connection, name))
