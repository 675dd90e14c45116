"""A kept connection outlives refusals, and is replaced when it was lost or left in the middle of an answer."""

import pytest
import trio

from storage.connection import Connection
from storage.database import Database
from storage.errors import Refused, StoreUnavailable
from storage.reserved import Reserved
from tests.waiting import until


async def _backend(kept: Reserved) -> int:
    return await kept.run(lambda connection: connection.fetchval("SELECT pg_backend_pid()"))


async def _is_gone(database: Database, backend: int) -> bool:
    async with database.connection() as connection:
        return not await connection.fetchval("SELECT count(*) FROM pg_stat_activity WHERE pid = $1", backend)


async def _is_idle(database: Database, backend: int) -> bool:
    async with database.connection() as connection:
        states = await connection.fetch("SELECT state FROM pg_stat_activity WHERE pid = $1", backend)
    return all(row["state"] == "idle" for row in states)


async def test_one_connection_serves_every_statement_and_survives_a_refusal(database: Database) -> None:
    """Goal: nothing is taken and put back between statements. Method: compare the server's process before and after."""
    async with database.reserve() as kept:
        backend = await _backend(kept)
        with pytest.raises(Refused):
            await kept.run(lambda connection: connection.fetchval("SELECT 1 / 0"))
        assert await _backend(kept) == backend
    assert database.size == 0, "the pool has lent nothing"


async def test_a_lost_connection_is_replaced(database: Database) -> None:
    """Goal: a loop goes on after its server process was ended. Method: end it, see the error once, then an answer."""
    async with database.reserve() as kept:
        backend = await _backend(kept)
        async with database.connection() as other:
            await other.execute("SELECT pg_terminate_backend($1)", backend)
        await until(lambda: _is_gone(database, backend))
        with pytest.raises(StoreUnavailable):
            await _backend(kept)
        assert await _backend(kept) != backend


async def test_a_cancelled_statement_leaves_no_connection_in_doubt(database: Database) -> None:
    """Goal: the server stops what was cancelled, and the next statement reads an answer of its own. Method: cancel in
    the middle of a long query; the server is idle soon, and the next answer is right."""

    async def sleep(connection: Connection) -> None:
        with trio.move_on_after(0.05) as scope:
            await connection.fetch("SELECT pg_sleep(60)")
        assert scope.cancelled_caught
        raise trio.TooSlowError

    async with database.reserve() as kept:
        backend = await _backend(kept)
        with pytest.raises(trio.TooSlowError):
            await kept.run(sleep)
        assert await kept.run(lambda connection: connection.fetchval("SELECT 7")) == 7
        await until(lambda: _is_idle(database, backend), what="the server to end the cancelled statement")


async def test_statements_of_several_tasks_take_turns(database: Database) -> None:
    """Goal: two tasks never share an exchange. Method: twenty tasks at once, each with an answer of its own."""
    answers: dict[int, int] = {}

    async with database.reserve() as kept:

        async def ask(number: int) -> None:
            answers[number] = await kept.run(lambda connection: connection.fetchval("SELECT $1::int", number))

        async with trio.open_nursery() as tasks:
            for number in range(20):
                tasks.start_soon(ask, number)
    assert answers == {number: number for number in range(20)}
