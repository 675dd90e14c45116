"""Every refusal of the server under its own class, and none with a value in it."""

import traceback

import pytest
import trio

from storage.database import Database
from storage.errors import Conflict, NotAnInteger, Refused, SerializationLost, StorageError, StoreUnavailable
from storage.translation import may_write
from tests.storage.activity import elsewhere, is_running, terminate_others
from tests.waiting import until

# Stands for a signature, a ciphertext, a token: it must be in no error.
SECRET = "7kXq2"

SLEEP = "SELECT pg_sleep(60)"

SCHEMA = """
CREATE TABLE parents (parent text PRIMARY KEY);
CREATE TABLE things (
    thing text PRIMARY KEY,
    amount numeric(78, 0) NOT NULL CONSTRAINT things_amount CHECK (amount >= 0),
    parent text CONSTRAINT things_parent REFERENCES parents,
    span int4range,
    CONSTRAINT things_span EXCLUDE USING gist (span WITH &&)
);
CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN RAISE EXCEPTION 'may not go back' USING ERRCODE = 'TY001', CONSTRAINT = 'transition_listed'; END $$;
CREATE TRIGGER refuse BEFORE UPDATE ON things FOR EACH ROW EXECUTE FUNCTION refuse();
INSERT INTO things VALUES ('there', 1, NULL, '[1,5)');
"""

CONFLICTS = [
    ("INSERT INTO things VALUES ('there', 1)", "things_pkey"),
    ("INSERT INTO things VALUES ('other', 1, NULL, '[2,3)')", "things_span"),
]
REFUSALS = [
    ("INSERT INTO things VALUES ($1, -1)", "23514", "things_amount"),
    ("INSERT INTO things VALUES ($1, NULL)", "23502", ""),
    ("INSERT INTO things VALUES ('other', 1, $1)", "23503", "things_parent"),
    ("UPDATE things SET parent = $1", "TY001", "transition_listed"),
    ("SELECT $1::text::uuid", "22P02", ""),
    ("SELECT $1::text::integer", "22P02", ""),
    ("SELECT pg_sleep(0), $1::text FROM nowhere", "42P01", ""),
    ("SELECT ($1::text || chr(0))", "54000", ""),
]


@pytest.fixture
async def url(empty_database_url: str, bridge: None) -> str:
    async with (
        Database.open(empty_database_url, pool_size=1, application_name="tests") as database,
        database.connection() as connection,
    ):
        await connection.execute(SCHEMA)
    return empty_database_url


@pytest.mark.parametrize(("sql", "constraint"), CONFLICTS)
async def test_conflict(url: str, sql: str, constraint: str) -> None:
    """Goal: a taken key is a Conflict that names its constraint. Method: a unique and an exclusion constraint."""
    async with Database.open(url, pool_size=1, application_name="tests") as database:
        with pytest.raises(Conflict) as refused:
            async with database.transaction() as connection:
                await connection.execute(sql)
        assert refused.value.constraint == constraint


@pytest.mark.parametrize(("sql", "sqlstate", "constraint"), REFUSALS)
async def test_refused(url: str, sql: str, sqlstate: str, constraint: str) -> None:
    """Goal: every other refusal carries SQLSTATE and constraint, and shows no argument, not even in its cause.

    Method: one statement per kind, with an argument that is looked for in the whole traceback.
    """
    async with Database.open(url, pool_size=1, application_name="tests") as database:
        with pytest.raises(Refused) as refused:
            async with database.transaction() as connection:
                await connection.fetch(sql, SECRET)
        error = refused.value
        assert (error.sqlstate, error.constraint) == (sqlstate, constraint)
        assert SECRET not in "".join(traceback.format_exception(error)), "an argument is in the error"
        async with database.transaction() as connection:
            assert await connection.fetchval("SELECT 1") == 1


@pytest.mark.parametrize(
    ("sql", "argument"),
    [
        ("SELECT $1::uuid", SECRET),
        ("SELECT $1::integer", SECRET),
        ("SELECT $1::text", f"\ud800{SECRET}"),
        ("SELECT $1::text", f"\0{SECRET}"),
        ("SELECT $1::jsonb", {SECRET: "\0"}),
        ("SELECT $1::jsonb", {SECRET: float("nan")}),
        ("SELECT $1::jsonb", {SECRET: {1, 2}}),
        ("SELECT $1::numeric", 1.5),
        ("SELECT $1::numeric", True),
        ("SELECT $1::bigint", 2**63),
    ],
)
async def test_bad_argument(url: str, sql: str, argument: object) -> None:
    """Goal: an argument that does not fit is Refused with a data exception, unseen, and the connection stays good.

    Method: values that asyncpg or the server cannot take, in a transaction that then still commits.
    """
    async with Database.open(url, pool_size=1, application_name="tests") as database:
        with pytest.raises(Refused) as refused:
            async with database.connection() as connection:
                await connection.fetchval(sql, argument)
        assert refused.value.sqlstate.startswith("22")
        assert SECRET not in "".join(traceback.format_exception(refused.value))
        async with database.transaction() as connection:
            assert await connection.fetchval("SELECT 1") == 1
        assert database.size == 1


@pytest.mark.parametrize("expression", ["1.5", "1.0", "'NaN'::numeric", "'Infinity'::numeric"])
async def test_fraction_is_refused(url: str, expression: str) -> None:
    """Goal: no fraction, NaN or infinity comes out of a numeric. Method: select each; the connection stays good."""
    async with Database.open(url, pool_size=1, application_name="tests") as database:
        async with database.connection() as connection:
            with pytest.raises(NotAnInteger):
                await connection.fetchval(f"SELECT {expression}")
            assert await connection.fetchval("SELECT 1::numeric") == 1
        assert database.size == 1


async def test_deadlock(url: str) -> None:
    """Goal: the loser of a deadlock gets SerializationLost, the winner its work.

    Method: two transactions take two advisory locks in opposite order; deadlock_timeout is 1 s.
    """
    lock = "SELECT pg_advisory_xact_lock($1)"
    results: list[str] = []

    async def lock_both(database: Database, first: int, second: int, mine: trio.Event, theirs: trio.Event) -> None:
        try:
            async with database.transaction() as connection:
                await connection.fetch(lock, first)
                mine.set()
                await theirs.wait()
                await connection.fetch(lock, second)
            results.append("won")
        except SerializationLost:
            results.append("lost")

    one, other = trio.Event(), trio.Event()
    async with Database.open(url, pool_size=2, application_name="tests") as database, trio.open_nursery() as racing:
        racing.start_soon(lock_both, database, 1, 2, one, other)
        racing.start_soon(lock_both, database, 2, 1, other, one)
    assert sorted(results) == ["lost", "won"]


async def test_lock_timeout(url: str) -> None:
    """Goal: a lock that was not to be had in time is SerializationLost. Method: NOWAIT on a locked row."""
    async with Database.open(url, pool_size=2, application_name="tests") as database, database.transaction() as holder:
        await holder.fetch("SELECT * FROM things FOR UPDATE")
        with pytest.raises(SerializationLost):
            async with database.transaction() as connection:
                await connection.fetch("SELECT * FROM things FOR UPDATE NOWAIT")


async def test_statement_timeout(url: str) -> None:
    """Goal: a statement that the server cancels by itself is StoreUnavailable: it may be tried again.

    Method: a statement timeout of 0.1 s.
    """
    opened = Database.open(url, pool_size=1, application_name="tests", statement_timeout_seconds=0.1)
    async with opened as database:
        with pytest.raises(StoreUnavailable, match="57014"):
            async with database.transaction() as connection:
                await connection.fetchval("SELECT pg_sleep(10)")
        async with database.transaction() as connection:
            assert await connection.fetchval("SELECT 1") == 1


async def test_cancel_request_meant_for_somebody_else(url: str) -> None:
    """Goal: a cancellation that nobody here asked for (a pooler mixed two clients up) is StoreUnavailable.

    Method: pg_cancel_backend from another connection, as pgbouncer#245 did it.
    """
    errors: list[StorageError] = []

    async def sleep(database: Database) -> None:
        try:
            async with database.transaction() as connection:
                await connection.fetchval(SLEEP)
        except StorageError as error:
            errors.append(error)

    async with Database.open(url, pool_size=2, application_name="tests") as database:
        async with database.connection() as other, trio.open_nursery() as sleeping:
            sleeping.start_soon(sleep, database)
            await until(lambda: is_running(url, SLEEP))
            await other.fetch(
                "SELECT pg_cancel_backend(pid) FROM pg_stat_activity"
                " WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
        assert [type(error) for error in errors] == [StoreUnavailable]


async def test_killed_backend(url: str) -> None:
    """Goal: a backend that an administrator or a failover ends is StoreUnavailable, and the pool renews it.

    Method: terminate it while the connection is lent and while it is idle.
    """
    async with Database.open(url, pool_size=1, application_name="tests") as database:
        with pytest.raises(StoreUnavailable):
            async with database.transaction() as connection:
                await terminate_others(url)
                await connection.fetchval("SELECT 1")
        async with database.transaction() as connection:
            assert await connection.fetchval("SELECT 1") == 1
        await terminate_others(url)
        await until(lambda: database.size == 0)
        async with database.transaction() as connection:
            assert await connection.fetchval("SELECT 1") == 1


async def test_read_only_server_renews_the_pool(url: str) -> None:
    """Goal: a server that became a standby is StoreUnavailable, and every connection to it is renewed, idle ones too.

    Method: make a session read-only, as a demoted server is; the backend of the other pooled connection must change.
    """
    backend = "SELECT pg_backend_pid()"
    async with Database.open(url, pool_size=2, application_name="tests") as database:
        async with database.connection() as one, database.connection() as other:
            before = {await one.fetchval(backend), await other.fetchval(backend)}
        with pytest.raises(StoreUnavailable, match="not the writer"):
            async with database.transaction() as connection:
                await connection.execute("SET TRANSACTION READ ONLY")
                await connection.execute("DELETE FROM parents")
        async with database.connection() as one, database.connection() as other:
            after = {await one.fetchval(backend), await other.fetchval(backend)}
        assert not before & after


async def test_changed_schema_under_a_prepared_statement(url: str) -> None:
    """Goal: a migration that runs beside a process makes its cached statement StoreUnavailable, not a lasting failure.

    Method: change a column's type between two uses of one statement in a transaction.
    """
    async with Database.open(url, pool_size=1, application_name="tests") as database:
        async with database.connection() as connection:
            await connection.fetch("SELECT * FROM parents")
        await elsewhere(url, "ALTER TABLE parents ADD COLUMN more integer")
        with pytest.raises(StoreUnavailable):
            async with database.transaction() as connection:
                await connection.fetch("SELECT * FROM parents")
        async with database.transaction() as connection:
            await connection.fetch("SELECT * FROM parents")


async def test_wrong_use_is_a_bug_and_passes(url: str) -> None:
    """Goal: what is a bug of ours is not dressed up as a refusal. Method: give too many arguments."""
    async with Database.open(url, pool_size=1, application_name="tests") as database:
        with pytest.raises(Exception, match="expects 0 arguments") as raised:
            async with database.transaction() as connection:
                await connection.fetchval("SELECT 1", 2)
        assert not isinstance(raised.value, StorageError)


@pytest.mark.parametrize(
    ("sql", "writes"),
    [
        ("SELECT 1", False),
        ("\n  select 1", False),
        ("VALUES (1)", False),
        ("SHOW timezone", False),
        ("INSERT INTO a VALUES (1)", True),
        ("WITH gone AS (DELETE FROM a RETURNING 1) SELECT * FROM gone", True),
        ("selection()", True),
    ],
)
def test_may_write(sql: str, writes: bool) -> None:
    """Goal: only what is surely a read counts as one. Method: examples of both."""
    assert may_write(sql) is writes
