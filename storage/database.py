"""PostgreSQL for the contexts: connections, transactions and notifications."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from typing import Final, TypeVar

import trio
from attrs import field, frozen

from nursery.cleanup import CleanupExpired, finish
from storage.connection import BEGIN, Connection, Isolation, Row
from storage.listener import HEARTBEAT_SECONDS, listen
from storage.pool import END_SECONDS, Pool, open_pool
from storage.reserved import Asks, Reserved, reserved
from storage.server import connect, connect_arguments

__all__ = ["OWN_CONNECTIONS", "Asks", "Connection", "Database", "Isolation", "Row"]

T = TypeVar("T")

# Connections of a process beside its pool: its listener's, and those that its loops keep.
RESERVED_MAX: Final = 3
OWN_CONNECTIONS: Final = 1 + RESERVED_MAX


@frozen
class Database:
    """Opened once per process by `Database.open`, under an open bridge."""

    # Such as 18.6.
    server_version: str
    _pool: Pool
    _reserved: Pool
    _url: str = field(repr=False)
    _application_name: str

    @staticmethod
    @asynccontextmanager
    async def open(
        url: str, *, pool_size: int, application_name: str, statement_timeout_seconds: float = 30
    ) -> "AsyncGenerator[Database]":
        """Prove with one connection that the server is there, is the writer and new enough; then lend connections.

        Of several hosts in `url` the writer is taken, unless it says `target_session_attrs` itself.

        Raises:
            StoreUnavailable: it cannot be used; the text names hosts and database, never the password.
            ServerTooOld: it is below PostgreSQL 16.
        """
        async with connect(url, application_name=application_name) as probe:
            version = probe.get_server_version()
        arguments = connect_arguments(
            url, application_name=application_name, statement_timeout_seconds=statement_timeout_seconds
        )
        async with open_pool(url, arguments, pool_size) as pool, open_pool(url, arguments, RESERVED_MAX) as kept:
            yield Database(f"{version.major}.{version.micro}", pool, kept, url, application_name)

    @property
    def pool_size(self) -> int:
        """The most connections that this process opens to lend; OWN_CONNECTIONS come on top."""
        return self._pool.size_max

    @property
    def size(self) -> int:
        """Connections that are open now."""
        return self._pool.raw.get_size()

    @property
    def idle(self) -> int:
        """Open connections that nobody holds."""
        return self._pool.raw.get_idle_size()

    @asynccontextmanager
    async def connection(self) -> AsyncGenerator[Connection]:
        """A connection in which every statement commits by itself: for reads, and for single writes.

        Raises:
            StoreUnavailable: no connection came free, or there is no server.
        """
        connection = await self._pool.take(None)
        try:
            yield connection
        finally:
            with suppress(CleanupExpired):
                await finish(self._pool.put_back, connection, seconds=END_SECONDS, on_expiry=connection.cut_off)

    async def run(self, ask: Callable[[Connection], Awaitable[T]]) -> T:
        """The answer of `ask`, on a connection that is lent for it."""
        async with self.connection() as connection:
            return await ask(connection)

    def reserve(self) -> AbstractAsyncContextManager[Reserved]:
        """A connection that one loop keeps, beside the pool: at most RESERVED_MAX at once, for others wait."""
        return reserved(self._reserved)

    @asynccontextmanager
    async def transaction(self, *, isolation: Isolation = "read committed") -> AsyncGenerator[Connection]:
        """A connection in a transaction: committed when the block ends, rolled back when it raises or is cancelled.

        A cancellation that comes during the commit does not interrupt it; it is delivered afterwards.

        Raises, besides what its statements raise:
            StoreUnavailable: no connection came free, or there is no server; nothing took effect.
            Conflict, Refused, SerializationLost: the server refused to commit (a deferred constraint, a lost race, a
                failed statement whose error was swallowed); nothing took effect.
            CommitUnknown: the answer to the commit did not come. Read back by key, never send it as new.
        """
        connection = await self._pool.take(BEGIN[isolation])
        try:
            yield connection
            # Work that is cancelled already is not committed: else the luck of the last checkpoint would decide.
            await trio.lowlevel.checkpoint_if_cancelled()
        except BaseException as error:
            with suppress(CleanupExpired):
                await finish(self._pool.roll_back, connection, error, seconds=END_SECONDS, on_expiry=connection.cut_off)
            raise
        await self._pool.commit(connection)

    async def listen(
        self,
        channels: Sequence[str],
        notified: Callable[[str, str], None],
        *,
        heartbeat_seconds: float = HEARTBEAT_SECONDS,
    ) -> None:
        """Call `notified(channel, payload)` for every NOTIFY, until cancelled, on a connection outside the pool.

        A notification is a hint: those sent while nobody listened are gone. The caller reads its table after every
        start of this, and `notified` only wakes a loop.

        Raises:
            StoreUnavailable: the connection was lost, or did not answer a heartbeat. Call again.
        """
        async with connect(self._url, application_name=f"{self._application_name} listener") as raw:
            await listen(Connection(raw, in_transaction=False), channels, notified, heartbeat_seconds)
