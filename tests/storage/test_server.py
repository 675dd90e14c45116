"""Reaching a server: refusals in one clear line without a password, and the writer among several."""

import traceback
from urllib.parse import urlsplit

import pytest
import trio
from attrs import define

from storage import server
from storage.database import Database
from storage.errors import ServerTooOld, StoreUnavailable
from storage.server import at_database, connect_arguments, target_of
from tayho.local.folder import throw_away_folder
from tayho.local.postgres import postgres
from tayho.local.process import free_port
from tests.services.postgres import PostgresServer, binaries
from tests.services.proxy import fault_proxy
from tests.storage.activity import elsewhere
from tests.waiting import until

PASSWORD = "pa55w0rd"


@pytest.mark.parametrize(
    ("url", "target"),
    [
        (f"postgresql://user:{PASSWORD}@db.internal:5432/tayho", "db.internal:5432/tayho"),
        (f"postgres://user:{PASSWORD}@one:1,two:2/tayho?sslmode=require", "one:1,two:2/tayho"),
        ("postgresql://localhost/tayho", "localhost/tayho"),
        # Each of these hides the password where it is not expected.
        (f"postgresql://user:a/{PASSWORD}@host/db", "the server that the URL names"),
        (f"postgresql://user:a?{PASSWORD}@host/db", "the server that the URL names"),
        (f"postgresql://user:a#{PASSWORD}@host/db", "the server that the URL names"),
        (f"postgresql://user:a@{PASSWORD}@host/db", "the server that the URL names"),
        (f"postgresql://host/db?user=a@b&password={PASSWORD}", "the server that the URL names"),
        (f"postgresql://host/db?password={PASSWORD}", "host/db"),
        (f"mysql://user:{PASSWORD}@host/db", "the server that the URL names"),
    ],
)
def test_target_shows_no_password(url: str, target: str) -> None:
    """Goal: what a person is shown of a URL never holds a password. Method: good URLs, and slips of the pen."""
    assert target_of(url) == target
    assert PASSWORD not in target_of(url)


def test_at_database_changes_only_the_name() -> None:
    """Goal: another database of the same servers. Method: a URL with everything in it."""
    url = "postgresql://u:p@one:1,two:2/old?target_session_attrs=any"
    assert at_database(url, "a b") == "postgresql://u:p@one:1,two:2/a%20b?target_session_attrs=any"


def test_arguments_ask_for_the_writer_unless_told_otherwise() -> None:
    """Goal: of several hosts the writer is taken. Method: a URL without and with a choice of its own."""
    plain = connect_arguments("postgresql://h/d", application_name="a", statement_timeout_seconds=1)
    chosen = connect_arguments(
        "postgresql://h/d?target_session_attrs=standby", application_name="a", statement_timeout_seconds=0
    )
    assert plain["target_session_attrs"] == "read-write"
    assert plain["server_settings"]["statement_timeout"] == "1000"
    assert plain["command_timeout"] == 1 + server.SILENT_SERVER_SECONDS
    assert "target_session_attrs" not in chosen
    assert "command_timeout" not in chosen


async def _refusal(url: str) -> StoreUnavailable:
    with pytest.raises(StoreUnavailable) as refused:
        async with Database.open(url, pool_size=1, application_name="tests"):
            pass
    assert PASSWORD not in "".join(traceback.format_exception(refused.value))
    assert "\n" not in str(refused.value)
    return refused.value


async def test_unreachable_servers(empty_database_url: str, bridge: None) -> None:
    """Goal: every way not to reach a server is StoreUnavailable in one line that names it, without the password.

    Method: nothing listens; a wrong password; no such database; no such user; a malformed URL.
    """
    parts = urlsplit(empty_database_url)
    host = f"127.0.0.1:{parts.port}"
    nowhere = f"127.0.0.1:{free_port()}"
    assert f"at {nowhere}/db" in str(await _refusal(f"postgresql://postgres:{PASSWORD}@{nowhere}/db"))
    wrong = await _refusal(f"postgresql://postgres:{PASSWORD}@{host}/db")
    assert "28P01" in str(wrong)
    missing = await _refusal(f"postgresql://{parts.username}:{parts.password}@{host}/nowhere")
    assert "3D000" in str(missing)
    # The first is read as a host with the password as its port, which Python's own error then quotes.
    for malformed in (f"postgresql://u:{PASSWORD}/1@h/d", "postgresql://h:port/d", f"mysql://u:{PASSWORD}@h/d"):
        assert "URL is malformed" in str(await _refusal(malformed))


async def test_server_that_accepts_and_says_nothing(
    empty_database_url: str, bridge: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Goal: a server that does not answer the connect is given up. Method: a frozen proxy, and a short bound."""
    monkeypatch.setattr(server, "CONNECT_SECONDS", 0.3)
    async with fault_proxy(empty_database_url) as proxy:
        proxy.freeze()
        with trio.fail_after(5):
            refused = await _refusal(proxy.url_for(empty_database_url))
        assert "TimeoutError" in str(refused)


async def test_old_server_is_refused(empty_database_url: str, bridge: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: PostgreSQL below 16 is refused by name. Method: the real server, and a higher bound; then 15.9 itself."""

    @define
    class Version:
        major: int
        micro: int

    server.refuse_old(Version(16, 0))
    with pytest.raises(ServerTooOld, match=r"PostgreSQL 15\.9 is too old: version 16"):
        server.refuse_old(Version(15, 9))
    monkeypatch.setattr(server, "OLDEST_MAJOR", 99)
    assert isinstance(await _refusal(empty_database_url), ServerTooOld)


async def test_session_settings(empty_database_url: str, bridge: None) -> None:
    """Goal: every session has our name, UTC and both timeouts, and the pool reports what it holds.

    Method: ask the server, and the pool, before, while and after a connection is lent.
    """
    async with Database.open(
        empty_database_url, pool_size=3, application_name="tayho abc", statement_timeout_seconds=7
    ) as database:
        assert (database.pool_size, database.size, database.idle) == (3, 0, 0)
        async with database.connection() as connection:
            assert (database.size, database.idle) == (1, 0)
            names = ("application_name", "timezone", "statement_timeout", "idle_in_transaction_session_timeout")
            values = [await connection.fetchval("SELECT current_setting($1)", name) for name in names]
            assert values == ["tayho abc", "UTC", "7s", "1min"]
            assert (await connection.fetchval("SHOW server_version")).startswith(database.server_version)
        assert (database.size, database.idle) == (1, 1)


async def test_writer_among_two_hosts(postgres_server: PostgresServer, bridge: None) -> None:
    """Goal: a URL with several hosts leads to the writer, whatever their order; one without a writer is refused.

    Method: a second server with the same password, made read-only as a standby is.
    """
    with throw_away_folder() as folder:
        async with postgres(folder, binaries=binaries()) as second:
            url = second.service.url
            mine, theirs = urlsplit(postgres_server.url), urlsplit(url)
            await elsewhere(url, f"ALTER ROLE {mine.username} PASSWORD '{mine.password}'")
            await elsewhere(postgres_server.url, "SELECT 1")
            reader = url.replace(theirs.password or "", mine.password or "")
            await elsewhere(reader, "ALTER SYSTEM SET default_transaction_read_only = on")
            await elsewhere(reader, "SELECT pg_reload_conf()")
            await until(lambda: _is_refused(reader), what="the second server is read-only")
            hosts = (f"127.0.0.1:{mine.port}", f"127.0.0.1:{theirs.port}")
            for order in (hosts, hosts[::-1]):
                both = mine._replace(netloc=f"{mine.username}:{mine.password}@{','.join(order)}").geturl()
                async with (
                    Database.open(both, pool_size=1, application_name="tests") as database,
                    database.connection() as connection,
                ):
                    assert await connection.fetchval("SHOW port") == str(mine.port)
            reading = f"{reader}?target_session_attrs=any"
            async with Database.open(reading, pool_size=1, application_name="tests") as database:
                with pytest.raises(StoreUnavailable, match="not the writer"):
                    async with database.transaction() as connection:
                        await connection.execute("CREATE TABLE nothing ()")


async def _is_refused(url: str) -> bool:
    try:
        async with Database.open(url, pool_size=1, application_name="tests"):
            return False
    except StoreUnavailable:
        return True
