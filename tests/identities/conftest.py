"""The logins of the processes on a migrated database, made as `tayho db migrate` makes them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from urllib.parse import urlsplit
from uuid import uuid4

import pytest
from attrs import frozen

from storage.connection import Connection
from storage.server import connect
from tayho.identities.making import Credentials, make_identities

PASSWORD = "a password that nobody has"


@frozen
class Logins:
    """The database, and the URL of each identity's login."""

    owner_url: str
    urls: Mapping[str, str]
    names: Mapping[str, str]


def url_of(owner_url: str, name: str, password: str = PASSWORD) -> str:
    """The same database, as another login."""
    parts = urlsplit(owner_url)
    host = parts.netloc.rpartition("@")[2]
    return parts._replace(netloc=f"{name}:{password.replace(' ', '%20')}@{host}").geturl()


async def as_owner(url: str, *statements: str) -> None:
    """Run statements as the superuser that owns the database."""
    async with connect(url, application_name="tests identities") as raw:
        for statement in statements:
            await Connection(raw, in_transaction=False).execute(statement)


@pytest.fixture
async def logins(database_url: str, bridge: None) -> AsyncIterator[Logins]:
    del bridge
    names = {identity: f"{identity}_{uuid4().hex[:8]}" for identity in ("runtime", "engine", "auditor")}
    wanted = {identity: Credentials(name, PASSWORD) for identity, name in names.items()}
    await make_identities(database_url, wanted)
    yield Logins(database_url, {identity: url_of(database_url, name) for identity, name in names.items()}, names)
    # A login belongs to the server: what it may do in this database goes first.
    for name in names.values():
        await as_owner(database_url, f"DROP OWNED BY {name} CASCADE", f"DROP ROLE {name}")
