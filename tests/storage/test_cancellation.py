"""Cancellation at every point of a connection's life: the pool stays whole and nothing stays open."""

import random
from collections import Counter

import pytest
import trio

from storage import database as database_module
from storage import pool
from storage.database import Database
from storage.errors import StoreUnavailable
from tests.services.proxy import fault_proxy
from tests.storage.activity import is_running, pool_is_whole, terminate_others
from tests.waiting import until

CANCELLATIONS = 200
PHASES = ("acquire", "query", "commit")
# About what each takes: an acquire may have to open a connection.
SECONDS = {"acquire": 0.01, "query": 0.008, "commit": 0.001}
POOL_SIZE = 4
WORKERS = 6

MAKE_EFFECTS = "CREATE TABLE effects (work integer, part integer, PRIMARY KEY (work, part))"
SLEEP = "SELECT pg_sleep(60)"
INSERT = "INSERT INTO effects VALUES ($1, $2)"


class Work:
    """One transaction with two effects, which knows in which phase it is."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.phase = "new"
        self.returned = False
        self.cancelled_in: str | None = None
        self._entered = {phase: trio.Event() for phase in (*PHASES, "after")}

    async def run(self, database: Database) -> None:
        self._enter("acquire")
        async with database.transaction() as connection:
            self._enter("query")
            await connection.execute(INSERT, self.number, 1)
            await connection.fetchval("SELECT pg_sleep(0.002)")
            await connection.execute(INSERT, self.number, 2)
            self._enter("commit")
        self._enter("after")
        self.returned = True

    async def run_cancelled(self, database: Database, phase: str, after_seconds: float) -> None:
        """Run it, and cancel it `after_seconds` of a phase, in which it may have gone on to the next by then."""
        async with trio.open_nursery() as racing:
            racing.start_soon(self._cancel, racing.cancel_scope, phase, after_seconds)
            await self.run(database)
            racing.cancel_scope.cancel()

    async def _cancel(self, scope: trio.CancelScope, phase: str, after_seconds: float) -> None:
        await self._entered[phase].wait()
        await trio.sleep(after_seconds)
        self.cancelled_in = self.phase
        scope.cancel()

    def _enter(self, phase: str) -> None:
        self.phase = phase
        self._entered[phase].set()


async def test_200_random_cancellations(empty_database_url: str, bridge: None) -> None:
    """Goal: no cancellation leaks a connection, leaves a transaction open, or tears an effect (must show 7).

    Method: 6 workers over a pool of 4 cancel 200 transactions, each at a random moment of a random phase: waiting for
    a connection, queries, commit. Then the pool, the server's own view and the table are compared with what each work
    had reported, and every place of the pool is used at once.
    """
    chance = random.Random(20_261)
    works: list[Work] = []
    async with Database.open(empty_database_url, pool_size=POOL_SIZE, application_name="tests") as database:
        async with database.connection() as connection:
            await connection.execute(MAKE_EFFECTS)

        async def cancel_works() -> None:
            # Some works end before their cancellation comes.
            while sum(work.cancelled_in is not None for work in works) < CANCELLATIONS:
                works.append(work := Work(len(works)))
                phase = chance.choice(PHASES)
                await work.run_cancelled(database, phase, chance.uniform(0, SECONDS[phase]))

        async with trio.open_nursery() as workers:
            for _ in range(WORKERS):
                workers.start_soon(cancel_works)

        await until(lambda: pool_is_whole(database, empty_database_url), what="the pool is whole")
        hit = Counter(work.cancelled_in for work in works)
        assert all(hit[phase] >= CANCELLATIONS / 20 for phase in PHASES), hit
        async with database.connection() as connection:
            rows = await connection.fetch("SELECT work, count(*)::integer AS parts FROM effects GROUP BY work")
        effects = {row["work"]: row["parts"] for row in rows}
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
                        await connection.fetchval(SLEEP)

                sleepers.start_soon(sleep)
                await until(lambda: is_running(empty_database_url, SLEEP))
                sleepers.cancel_scope.cancel()
            async with database.connection() as connection:
                assert await connection.fetchval("SELECT pg_backend_pid()") == backend
        assert await pool_is_whole(database, empty_database_url)


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
