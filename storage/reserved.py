"""A connection that one loop keeps: a busy process never starves it, and a statement costs one passage to asyncio."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Protocol, TypeVar

import trio

from nursery.cleanup import CleanupExpired, finish
from storage.connection import Connection
from storage.errors import Conflict, Refused, SerializationLost
from storage.pool import END_SECONDS, Pool

T = TypeVar("T")

# After these the connection is as good as before.
_OF_THE_STATEMENT = (Conflict, Refused, SerializationLost)


class Asks(Protocol):
    """Whoever runs statements that commit by themselves: a reserved connection, or a database that lends one."""

    async def run(self, ask: Callable[[Connection], Awaitable[T]]) -> T: ...


class Reserved:
    """One connection in which every statement commits by itself; a new one takes its place when it was lost.

    Several tasks may ask; their statements run one after the other.
    """

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._turn = trio.Lock()
        # Invariant: whole, and idle whenever nobody has the turn. None before the first use and after a loss.
        self._connection: Connection | None = None

    async def run(self, ask: Callable[[Connection], Awaitable[T]]) -> T:
        """The answer of `ask`, which may run one or several statements on the connection, but begins no transaction.

        Raises what its statements raise, and StoreUnavailable. Cancelled, what it asked may have taken effect.
        """
        async with self._turn:
            connection = self._connection or await self._pool.take(None)
            self._connection = None
            try:
                await self._pool.use_again(connection)
                answer = await ask(connection)
            except _OF_THE_STATEMENT:
                self._connection = connection
                raise
            except BaseException:
                # Broken, or cancelled with an answer on its way: the next statement must not wait for that.
                await self._give_back(connection)
                raise
            self._connection = connection
            return answer

    async def close(self) -> None:
        """Give the connection back."""
        connection, self._connection = self._connection, None
        if connection is not None:
            await self._give_back(connection)

    async def _give_back(self, connection: Connection) -> None:
        with suppress(CleanupExpired):
            await finish(self._pool.put_back, connection, seconds=END_SECONDS, on_expiry=connection.cut_off)


@asynccontextmanager
async def reserved(pool: Pool) -> AsyncGenerator[Reserved]:
    """A connection for as long as the block."""
    kept = Reserved(pool)
    try:
        yield kept
    finally:
        await kept.close()
