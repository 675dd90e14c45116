"""The password of a login is nowhere but with the process that uses it (OPS-2)."""

from __future__ import annotations

from base64 import b64decode
from uuid import uuid4

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from storage.connection import Connection
from storage.scram import PasswordRefused, scram_verifier
from storage.server import connect
from tayho.identities.making import Credentials, make_identities
from tests.identities.conftest import as_owner, url_of
from tests.services.postgres import PostgresServer

PRINTABLE = st.text(st.characters(min_codepoint=32, max_codepoint=126), min_size=16, max_size=64)


async def test_a_verifier_is_the_one_that_the_server_makes(database_url: str, bridge: None) -> None:
    """Goal: the server takes it for its own. Method: let it make one of a password, and make it again from its salt."""
    del bridge
    name, password = f"verified_{uuid4().hex[:8]}", "sixteen printable letters: ~!"
    await as_owner(database_url, f"CREATE ROLE {name} LOGIN PASSWORD '{password}'")
    async with connect(database_url, application_name="tests") as raw:
        asked = f"SELECT rolpassword FROM pg_authid WHERE rolname = '{name}'"
        made = str(await Connection(raw, in_transaction=False).fetchval(asked))
    await as_owner(database_url, f"DROP ROLE {name}")
    iterations, salt = made.split("$")[1].split(":")
    assert scram_verifier(password, salt=b64decode(salt), iterations=int(iterations)) == made


@pytest.mark.parametrize(
    "password", ["", "fifteen letters", "sixteen lètters!!", "a tab\tin sixteen letters", "x" * 20 + "\x7f"]
)
def test_what_another_client_could_read_otherwise_is_refused(password: str) -> None:
    """Goal: a login works for every client. Method: too short, and what RFC 4013 would change or forbid."""
    with pytest.raises(PasswordRefused) as refused:
        scram_verifier(password)
    assert not password or password not in str(refused.value)


async def test_the_password_is_in_no_statement(
    database_url: str, postgres_server: PostgresServer, bridge: None
) -> None:
    """Goal: who reads the server's log or its activity learns no password. Method: log every statement while logins are
    made; the log has the verifier and not the password, and the password opens a session."""
    del bridge
    database = database_url.rpartition("/")[2].partition("?")[0]
    name, password = f"logged_{uuid4().hex[:8]}", f"it is 'quoted' \\ and %41 {uuid4().hex}"
    log = postgres_server.server.service.log
    begins = log.stat().st_size
    await as_owner(database_url, f"ALTER DATABASE {database} SET log_statement = 'all'")
    await make_identities(database_url, {"runtime": Credentials(name, password)})
    said = log.read_bytes()[begins:].decode()
    assert f"ALTER ROLE {name} LOGIN PASSWORD 'SCRAM-SHA-256$4096:" in said
    assert password not in said
    assert password.rpartition(" ")[2] not in said
    async with connect(database_url, application_name="tests") as raw:
        asked = "SELECT query FROM pg_stat_activity WHERE query IS NOT NULL"
        queries = await Connection(raw, in_transaction=False).fetch(asked)
    assert all(password not in row["query"] for row in queries)
    encoded = password.replace("%", "%25").replace(" ", "%20").replace("'", "%27").replace("\\", "%5C")
    async with connect(url_of(database_url, name, encoded), application_name="tests") as raw:
        assert await Connection(raw, in_transaction=False).fetchval("SELECT current_user") == name
    await as_owner(database_url, f"DROP OWNED BY {name} CASCADE", f"DROP ROLE {name}")


@given(PRINTABLE)
@settings(max_examples=10)
def test_two_verifiers_of_one_password_differ(password: str) -> None:
    """Goal: nobody sees that two logins share a password. Method: two verifiers of the same one."""
    assert scram_verifier(password) != scram_verifier(password)
