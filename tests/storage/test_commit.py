"""What a commit may turn out to be: done, refused, or unknown; never guessed."""

from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager

import pytest
import trio

from storage import pool
from storage.connection import COMMIT, ConnectionReturned
from storage.database import Database
from storage.errors import CommitUnknown, Conflict, Refused, SerializationLost, StorageError, StoreUnavailable
from tests.services.proxy import FaultProxy, fault_proxy
from tests.storage.activity import is_running, pool_is_whole, terminate_others
from tests.waiting import until

SCHEMA = """
CREATE TABLE effects (key text PRIMARY KEY, slot integer);
ALTER TABLE effects ADD CONSTRAINT effects_slot UNIQUE (slot) DEFERRABLE INITIALLY DEFERRED;
CREATE FUNCTION linger() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN PERFORM pg_sleep(NEW.slot / 10.0); RETURN NULL; END $$;
CREATE CONSTRAINT TRIGGER linger AFTER INSERT ON effects DEFERRABLE INITIALLY DEFERRED
FOR EACH ROW WHEN (NEW.slot >= 100) EXECUTE FUNCTION linger();
"""
INSERT = "INSERT INTO effects VALUES ($1, $2)"
# A slot from 100 on makes its commit last as many tenths of a second.
LONG = 600


@pytest.fixture
async def url(empty_database_url: str, bridge: None) -> str:
    async with _opened(empty_database_url) as database, database.connection() as connection:
        await connection.execute(SCHEMA)
    return empty_database_url


@pytest.fixture
async def proxy(url: str) -> AsyncGenerator[FaultProxy]:
    async with fault_proxy(url) as running:
        yield running


def _opened(url: str) -> AbstractAsyncContextManager[Database]:
    return Database.open(url, pool_size=2, application_name="tests")


async def _insert(database: Database, key: str, slot: int) -> None:
    async with database.transaction() as connection:
        await connection.execute(INSERT, key, slot)


async def _keys(url: str) -> set[str]:
    async with _opened(url) as database, database.connection() as connection:
        return {row["key"] for row in await connection.fetch("SELECT key FROM effects")}


async def test_commit_and_rollback(url: str) -> None:
    """Goal: a block that ends normally is committed, one that raises is rolled back and its error comes out as it is.

    Method: one of each, and the table read through another connection.
    """
    async with _opened(url) as database:
        await _insert(database, "committed", 1)
        with pytest.raises(KeyError, match="reason"):
            async with database.transaction() as connection:
                assert connection.in_transaction
                await connection.execute(INSERT, "rolled back", 2)
                raise KeyError("reason")
        async with database.connection() as connection:
            assert not connection.in_transaction
        assert await _keys(url) == {"committed"}
        assert await pool_is_whole(database, url)


@pytest.mark.parametrize(("reaches_server", "took_effect"), [(True, True), (False, False)])
async def test_lost_answer_is_commit_unknown(
    url: str, proxy: FaultProxy, reaches_server: bool, took_effect: bool
) -> None:
    """Goal: a commit without an answer is CommitUnknown, whichever of the two really happened.

    Method: the proxy swallows the answer to COMMIT, or COMMIT itself. The caller sees the same; the table differs.
    """
    async with _opened(proxy.url_for(url)) as database:
        if reaches_server:
            proxy.swallow_answer_to(b"COMMIT;")
        else:
            proxy.swallow_request(b"COMMIT;")
        with pytest.raises(CommitUnknown):
            await _insert(database, "perhaps", 1)
        assert proxy.sprung
        assert ("perhaps" in await _keys(url)) is took_effect
        await _insert(database, "afterwards", 2)
        await until(lambda: pool_is_whole(database, url))


async def test_backend_killed_during_commit(url: str) -> None:
    """Goal: a server that dies while it commits leaves CommitUnknown, though it says so itself (57P01).

    Method: a deferred trigger makes the commit last; its backend is terminated meanwhile.
    """
    async with _opened(url) as database, trio.open_nursery() as committing:
        errors: list[StorageError] = []

        async def commit() -> None:
            try:
                await _insert(database, "perhaps", LONG)
            except StorageError as error:
                errors.append(error)

        committing.start_soon(commit)
        await until(lambda: is_running(url, COMMIT))
        await terminate_others(url)
        await until(lambda: errors)
        assert [type(error) for error in errors] == [CommitUnknown]
        await _insert(database, "afterwards", 1)
    assert await _keys(url) == {"afterwards"}


async def test_commit_deadline(url: str, proxy: FaultProxy, monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: a commit that gets no answer ends at its deadline as CommitUnknown, and costs the connection.

    Method: freeze the way to the server just before the commit.
    """
    monkeypatch.setattr(pool, "COMMIT_SECONDS", 0.3)
    async with _opened(proxy.url_for(url)) as database:
        with trio.fail_after(5), pytest.raises(CommitUnknown, match=r"no answer to a commit in 0\.3 s"):
            async with database.transaction() as connection:
                await connection.execute(INSERT, "perhaps", 1)
                proxy.freeze()
        assert database.size == 0
        proxy.thaw()
        await _insert(database, "afterwards", 2)


async def test_cancelled_caller_still_learns_of_an_unknown_commit(url: str, proxy: FaultProxy) -> None:
    """Goal: a cancellation that comes during the commit does not hide that its outcome is unknown.

    Method: cancel the caller while the commit lasts, then kill the backend.
    """
    async with _opened(url) as database, trio.open_nursery() as committing:
        outcome: list[type[BaseException]] = []

        async def commit(scope: trio.CancelScope) -> None:
            with scope:
                try:
                    await _insert(database, "perhaps", LONG)
                except StorageError as error:
                    outcome.append(type(error))

        scope = trio.CancelScope()
        committing.start_soon(commit, scope)
        await until(lambda: is_running(url, COMMIT))
        scope.cancel()
        await trio.testing.wait_all_tasks_blocked()
        assert outcome == []
        await terminate_others(url)
        await until(lambda: outcome)
    assert outcome == [CommitUnknown]


async def test_deferred_constraint_refuses_the_commit(url: str) -> None:
    """Goal: a commit that the server refuses is a Conflict, not unknown, and the connection is used again.

    Method: two rows of one slot under a deferred unique constraint.
    """
    async with _opened(url) as database:
        await _insert(database, "first", 1)
        with pytest.raises(Conflict) as refused:
            await _insert(database, "second", 1)
        assert refused.value.constraint == "effects_slot"
        assert await _keys(url) == {"first"}
        assert await pool_is_whole(database, url)


async def test_serialization_failure_at_commit(url: str) -> None:
    """Goal: a lost race under SERIALIZABLE is SerializationLost, whether a statement or the commit reports it.

    Method: write skew: each of two transactions reads what the other one writes.
    """
    count = "SELECT count(*) FROM effects"
    async with _opened(url) as database:
        with pytest.raises(SerializationLost):
            async with database.transaction(isolation="serializable") as one:
                await one.fetchval(count)
                async with database.transaction(isolation="serializable") as other:
                    await other.fetchval(count)
                    await other.execute(INSERT, "other", 1)
                await one.execute(INSERT, "one", 2)
        assert await _keys(url) == {"other"}


async def test_swallowed_error_does_not_commit(url: str) -> None:
    """Goal: a block that swallows the error of a statement is told that nothing was committed.

    Method: PostgreSQL answers such a COMMIT with ROLLBACK and without an error.
    """
    async with _opened(url) as database:
        await _insert(database, "first", 1)
        with pytest.raises(Refused, match="nothing was committed") as refused:
            async with database.transaction() as connection:
                await connection.execute(INSERT, "second", 2)
                with pytest.raises(Conflict):
                    await connection.execute(INSERT, "first", 3)
        assert refused.value.sqlstate == "25P02"
        assert await _keys(url) == {"first"}


async def test_swallowed_loss_of_the_connection_does_not_commit(url: str) -> None:
    """Goal: a block that swallows the loss of its connection does not end as if it had been committed.

    Method: kill the backend in the middle of the block.
    """
    async with _opened(url) as database:
        with pytest.raises(StoreUnavailable, match="lost with its connection"):
            async with database.transaction() as connection:
                await connection.execute(INSERT, "perhaps", 1)
                await terminate_others(url)
                with pytest.raises(StoreUnavailable):
                    await connection.fetchval("SELECT 1")
        assert await _keys(url) == set()


async def test_connection_is_not_used_after_its_block(url: str) -> None:
    """Goal: a connection that was given back, and may be in other hands, refuses work. Method: keep it and use it."""
    async with _opened(url) as database:
        async with database.transaction() as kept:
            pass
        with pytest.raises(ConnectionReturned):
            await kept.fetchval("SELECT 1")


async def test_lost_answer_to_a_single_write(url: str, proxy: FaultProxy) -> None:
    """Goal: outside a transaction a write commits by itself, so that its lost answer is CommitUnknown; a read's is not.

    Method: swallow the answer to an INSERT and to a SELECT.
    """
    async with _opened(proxy.url_for(url)) as database:
        proxy.swallow_answer_to(b"perhaps")
        with pytest.raises(CommitUnknown):
            async with database.connection() as connection:
                await connection.execute(INSERT, "perhaps", 1)
        assert await _keys(url) == {"perhaps"}
        proxy.swallow_answer_to(b"anybody")
        with pytest.raises(StoreUnavailable):
            async with database.connection() as connection:
                await connection.fetchval("SELECT $1::text", "anybody")
