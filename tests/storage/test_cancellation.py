"""Cancellation at every point of a connection's life: the pool stays whole and nothing stays open."""

import random
from collections import Counter

import pytest
import trio

from storage import database as database_module
from storage import pool
from storage.connection import Connection
from storage.database import Database
from storage.errors import StoreUnavailable
from tests.services.proxy import fault_proxy
from tests.storage.activity import pool_is_whole, states, terminate_others
from tests.waiting import until

CANCELLATIONS = 200
POOL_SIZE = 4
WORKERS = 6

MAKE_EFFECTS = "CREATE TABLE effects (work integer, part integer, PRIMARY KEY (work, part))"
INSERT = "INSERT INTO effects VALUES ($1, $2)"


class Work:
    """One transaction with two effects, which knows in which phase it is."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.phase = "acquire"
        self.returned = False
        self.cancelled_in: str | None = None

    async def run(self, database: Database) -> None:
        async with database.transaction() as connection:
            self.phase = "query"
            await connection.execute(INSERT, self.number, 1)
            await connection.fetchval("SELECT pg_sleep(0.002)")
            await connection.execute(INSERT, self.number, 2)
            self.phase = "commit"
        self.phase = "after"
        self.returned = True

    async def run_cancelled(self, database: Database, after_seconds: float) -> None:
        async with trio.open_nursery() as racing:
            racing.start_soon(self._cancel, racing.cancel_scope, after_seconds)
            await self.run(database)
            racing.cancel_scope.cancel()

    async def _cancel(self, scope: trio.CancelScope, after_seconds: float) -> None:
        await trio.sleep(after_seconds)
        self.cancelled_in = self.phase
        scope.cancel()


async def _typical_seconds(database: Database) -> float:
    """What one work takes while as many others run as will later. Opens every connection of the pool, too."""
    began = trio.current_time()
    numbers = list(range(-60, 0))

    async def run_works() -> None:
        while numbers:
            await Work(numbers.pop()).run(database)

    async with trio.open_nursery() as workers:
        for _ in range(WORKERS):
            workers.start_soon(run_works)
    return (trio.current_time() - began) / 60 * WORKERS


async def test_200_random_cancellations(empty_database_url: str, bridge: None) -> None:
    """Goal: no cancellation leaks a connection, leaves a transaction open, or tears an effect (must show 7).

    Method: 6 workers over a pool of 4 cancel 200 transactions at random moments, so that waiting for a connection,
    queries and commits are all hit; then the pool, the server's own view and the table are compared with what each
    work had reported, and every place of the pool is used at once.
    """
    chance = random.Random(20_261)
    works = [Work(number) for number in range(CANCELLATIONS)]
    waiting = list(works)
    async with Database.open(empty_database_url, pool_size=POOL_SIZE, application_name="tests") as database:
        async with database.connection() as connection:
            await connection.execute(MAKE_EFFECTS)
        seconds = await _typical_seconds(database)

        async def cancel_works() -> None:
            while waiting:
                await waiting.pop().run_cancelled(database, chance.uniform(0, 1.3 * seconds))

        async with trio.open_nursery() as workers:
            for _ in range(WORKERS):
                workers.start_soon(cancel_works)

        await until(lambda: pool_is_whole(database, empty_database_url), what="the pool is whole")
        hit = Counter(work.cancelled_in for work in works)
        assert all(hit[phase] >= 5 for phase in ("acquire", "query", "commit")), hit
        async with database.connection() as connection:
            rows = await connection.fetch("SELECT work, count(*)::integer AS parts FROM effects GROUP BY work")
        effects = {row["work"]: row["parts"] for row in rows if row["work"] >= 0}
        assert set(effects.values()) <= {2}, "half a transaction took effect"
        assert {work.number for work in works if work.returned} <= set(effects)
        # A work that was cancelled before its commit began has no effect.
        assert not {work.number for work in works if work.cancelled_in in {"acquire", "query"}} & set(effects)
        await _use_every_place(database)


async def _use_every_place(database: Database) -> None:
    async def use() -> None:
        async with database.transaction() as connection:
            assert await connection.fetchval("SELECT 1") == 1
            arrived.release()
            await everybody.wait()

    arrived = trio.Semaphore(0)
    everybody = trio.Event()
    with trio.fail_after(10):
        async with trio.open_nursery() as users:
            for _ in range(database.pool_size):
                users.start_soon(use)
            for _ in range(database.pool_size):
                await arrived.acquire()
            everybody.set()


async def _begin_sleeping(connection: Connection) -> None:
    await connection.fetchval("SELECT pg_sleep(60)")


@pytest.mark.parametrize("how", ["connection", "transaction"])
async def test_cancelled_query_is_cancelled_on_the_server(empty_database_url: str, bridge: None, how: str) -> None:
    """Goal: a cancelled query stops on the server too, and its connection is used again.

    Method: cancel a query of a minute once the server runs it; the same backend must answer the next query at once.
    """
    async with Database.open(empty_database_url, pool_size=1, application_name="tests") as database:
        async with database.connection() as connection:
            backend = await connection.fetchval("SELECT pg_backend_pid()")
        with trio.fail_after(10):
            async with trio.open_nursery() as sleepers:

                async def sleep() -> None:
                    async with getattr(database, how)() as connection:
                        await _begin_sleeping(connection)

                sleepers.start_soon(sleep)
                await until(lambda: _is_active(empty_database_url))
                sleepers.cancel_scope.cancel()
            async with database.connection() as connection:
                assert await connection.fetchval("SELECT pg_backend_pid()") == backend
        assert await pool_is_whole(database, empty_database_url)


async def _is_active(url: str) -> bool:
    return "active" in await states(url)


async def test_cancelled_wait_for_a_connection_takes_none(empty_database_url: str, bridge: None) -> None:
    """Goal: whoever is cancelled while waiting for a connection takes none with it.

    Method: hold the only connection, cancel a waiting task, give the connection back: the next task gets it.
    """
    async with Database.open(empty_database_url, pool_size=1, application_name="tests") as database:
        async with database.connection(), trio.open_nursery() as waiters:

            async def wait() -> None:
                async with database.transaction():
                    raise AssertionError("there was no connection to have")

            waiters.start_soon(wait)
            await trio.testing.wait_all_tasks_blocked()
            waiters.cancel_scope.cancel()
        with trio.fail_after(5):
            async with database.transaction() as connection:
                assert await connection.fetchval("SELECT 1") == 1


async def test_cancelled_connects_harm_nobody(empty_database_url: str, bridge: None) -> None:
    """Goal: a cancellation while a connection is being opened leaves nothing behind, here or on the server.

    Method: cancel 60 first uses of a cold pool at random moments of the time that opening takes. An error that asyncio
    finds unawaited (asyncpg leaves one in its TLS question) would end the bridge, and this test with it.
    """
    chance = random.Random(60)
    began = trio.current_time()
    async with Database.open(empty_database_url, pool_size=1, application_name="tests"):
        seconds = trio.current_time() - began
    async with Database.open(empty_database_url, pool_size=POOL_SIZE, application_name="tests") as database:
        for _ in range(60):
            with trio.move_on_after(chance.uniform(0, seconds)):
                async with database.transaction() as connection:
                    await connection.fetchval("SELECT 1")
                    await trio.sleep_forever()
            if database.size:
                await terminate_others(empty_database_url)
                await until(lambda: database.size == 0)
        await _use_every_place(database)
        await until(lambda: pool_is_whole(database, empty_database_url), what="the pool is whole")


async def test_frozen_server_costs_the_deadline_and_the_connection(
    empty_database_url: str, bridge: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Goal: a server that answers nothing, not even a cancel request, holds a cancelled task only until the deadline.

    Method: freeze the way to the server in the middle of a transaction and cancel it. asyncpg waits for the cancel
    request without limit (asyncpg#1356): only cutting the connection off ends that. After the thaw all is well.
    """
    monkeypatch.setattr(database_module, "END_SECONDS", 0.3)
    async with (
        fault_proxy(empty_database_url) as proxy,
        Database.open(proxy.url_for(empty_database_url), pool_size=1, application_name="tests") as database,
    ):
        with trio.fail_after(5), trio.move_on_after(0.2) as cancelled:
            async with database.transaction() as connection:
                await connection.fetchval("SELECT 1")
                proxy.freeze()
                await connection.fetchval("SELECT 2")
        assert cancelled.cancelled_caught
        assert database.size == 0
        proxy.thaw()
        async with database.transaction() as connection:
            assert await connection.fetchval("SELECT 3") == 3


async def test_exhausted_pool_is_reported(
    empty_database_url: str, bridge: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Goal: waiting for a connection has a bound. Method: hold the only one, and ask for another."""
    monkeypatch.setattr(pool, "ACQUIRE_SECONDS", 0.2)
    async with Database.open(empty_database_url, pool_size=1, application_name="tests") as database:
        async with database.connection():
            with pytest.raises(StoreUnavailable, match="none of the pool's 1 connections"):
                async with database.connection():
                    pass
        async with database.connection() as connection:
            assert await connection.fetchval("SELECT 1") == 1


async def test_cancelled_work_is_not_committed(empty_database_url: str, bridge: None) -> None:
    """Goal: work that was cancelled before its commit is never committed, even where it met no checkpoint after it.

    Method: cancel the scope from inside, as the last thing that the block does.
    """
    async with Database.open(empty_database_url, pool_size=1, application_name="tests") as database:
        async with database.connection() as connection:
            await connection.execute(MAKE_EFFECTS)
        with trio.CancelScope() as scope:
            async with database.transaction() as connection:
                await connection.execute(INSERT, 1, 1)
                scope.cancel()
        assert scope.cancelled_caught
        async with database.connection() as connection:
            assert await connection.fetchval("SELECT count(*)::integer FROM effects") == 0


async def test_cancellation_during_commit_waits_for_the_answer(empty_database_url: str, bridge: None) -> None:
    """Goal: a cancellation that comes while the commit is under way leaves no doubt: the answer is awaited.

    Method: a deferred trigger makes the commit take 0.3 s, the cancellation comes at 0.1 s. The block must end
    normally, with the effect there, and the cancellation be delivered at the next checkpoint.
    """
    async with Database.open(empty_database_url, pool_size=1, application_name="tests") as database:
        async with database.connection() as connection:
            await connection.execute(MAKE_EFFECTS)
            await connection.execute(
                "CREATE FUNCTION linger() RETURNS trigger LANGUAGE plpgsql AS"
                " $$ BEGIN PERFORM pg_sleep(0.3); RETURN NULL; END $$"
            )
            await connection.execute(
                "CREATE CONSTRAINT TRIGGER linger AFTER INSERT ON effects DEFERRABLE INITIALLY DEFERRED"
                " FOR EACH ROW EXECUTE FUNCTION linger()"
            )
        ended = False
        with trio.CancelScope() as scope:
            async with database.transaction() as connection:
                await connection.execute(INSERT, 1, 1)
                scope.deadline = trio.current_time() + 0.1
            ended = True
            await trio.lowlevel.checkpoint()
        assert ended
        assert scope.cancelled_caught
        async with database.connection() as connection:
            assert await connection.fetchval("SELECT count(*)::integer FROM effects") == 1
