"""Connections lent to one task at a time, and got back whole or cut off: no third way.

asyncpg's own context managers leak the connection, with its transaction open, when Trio cancels them in a query
(measured). Here taking stays cancellable; commit, rollback and release are shielded, with a deadline, at which the
connection is cut off. A connection that was cut off gives its place in the pool back at once.
"""

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

import trio
from attrs import field, frozen

from nursery.asyncio_bridge import run_asyncio
from nursery.cleanup import CleanupExpired, finish
from storage import driver
from storage.codecs import set_codecs
from storage.connection import COMMIT, RENEW_PLANS, ROLLBACK, Connection
from storage.driver import RawConnection, RawPool
from storage.errors import CommitUnknown, Refused, StoreUnavailable
from storage.plan_uses import PlanUses
from storage.server import unreachable
from storage.translation import TRANSLATED, NotTheWriter, cause_of

# A pool that gives no connection for so long is too small, or its server is gone.
ACQUIRE_SECONDS: Final = 30.0
# A commit may wait for a synchronous standby.
COMMIT_SECONDS: Final = 10.0
# For a rollback, and for the way back into the pool.
END_SECONDS: Final = 5.0
CLOSE_SECONDS: Final = 5.0

_COMMITTED: Final = "COMMIT"
_IN_FAILED_TRANSACTION: Final = "25P02"


@frozen
class Pool:
    raw: RawPool
    size_max: int
    url: str = field(repr=False)
    _plans: PlanUses

    async def take(self, begin: str | None) -> Connection:
        """A connection, in a transaction if `begin` is given. Cancellable: then nothing is taken.

        Raises:
            StoreUnavailable: none came free within ACQUIRE_SECONDS, or the server cannot be used.
        """
        taken: list[RawConnection] = []
        try:
            with trio.move_on_after(ACQUIRE_SECONDS):
                await run_asyncio(_acquire, self.raw, begin, self._plans, taken)
                return Connection(taken[0], in_transaction=begin is not None)
        except (*TRANSLATED, ValueError) as error:
            _cut_off(taken)
            raise unreachable(self.url, error) from cause_of(error)
        except BaseException:
            _cut_off(taken)
            raise
        _cut_off(taken)
        raise StoreUnavailable(f"none of the pool's {self.size_max} connections came free in {ACQUIRE_SECONDS:g} s.")

    async def use_again(self, connection: Connection) -> None:
        """Count another use of a connection that is kept between uses. Raises as a statement.

        One that was lost meanwhile says so at the statement that it is used for.
        """
        if driver.is_open(connection.raw) and self._plans.is_worn(connection.raw.get_server_pid()):
            await connection.execute(RENEW_PLANS)

    async def commit(self, connection: Connection) -> None:
        """Commit and put back, whatever is cancelled meanwhile. For what it raises see Database.transaction."""
        tags: list[str] = []
        try:
            await finish(self._commit, connection, tags, seconds=COMMIT_SECONDS, on_expiry=connection.cut_off)
        except CleanupExpired as error:
            if not tags:
                raise CommitUnknown(f"no answer to a commit in {COMMIT_SECONDS:g} s: read it back by key.") from error
        if tags != [_COMMITTED]:
            # PostgreSQL answers the commit of a failed transaction with the tag ROLLBACK, and no error.
            raise Refused(
                "an earlier statement of this transaction had failed, so nothing was committed.",
                sqlstate=_IN_FAILED_TRANSACTION,
            )

    async def roll_back(self, connection: Connection, error: BaseException) -> None:
        """Undo and put back, because of `error`, which stays the error to raise. To be run by `finish`."""
        try:
            await self._end(connection, ROLLBACK, [])
        except TRANSLATED as failure:
            error.add_note(f"The rollback failed as well ({type(failure).__name__}): the connection was cut off.")
            connection.cut_off()

    async def put_back(self, connection: Connection) -> None:
        """Give a connection without an open transaction back. To be run by `finish`.

        Quiet about a connection that breaks now: its statements have had their answers.
        """
        try:
            await self._end(connection, None, [])
        except TRANSLATED as error:
            refusal = connection.refusal(error, commits=False)
            connection.cut_off()
            if refusal is None:
                raise

    async def _commit(self, connection: Connection, tags: list[str]) -> None:
        if connection.fault is not None:
            await self.put_back(connection)
            raise StoreUnavailable("the transaction was lost with its connection.") from connection.fault
        failure = await self._attempt_commit(connection, tags)
        if failure is None:
            return
        refusal = connection.refusal(failure, commits=True)
        await self.put_back(connection)
        raise refusal or failure from cause_of(failure)

    async def _attempt_commit(self, connection: Connection, tags: list[str]) -> Exception | None:
        try:
            await self._end(connection, COMMIT, tags)
        except TRANSLATED as error:
            if not tags:
                return error
            # The outcome is known; only the return to the pool failed.
            connection.cut_off()
        return None

    async def _end(self, connection: Connection, verb: str | None, tags: list[str]) -> None:
        connection.lent = False
        if connection.fault is None:
            await run_asyncio(_end, self.raw, connection.raw, verb, tags)
            return
        connection.cut_off()
        if isinstance(connection.fault, NotTheWriter):
            # After a failover the other connections lead to the standby too; each is renewed when it is next taken.
            await run_asyncio(self.raw.expire_connections)


@asynccontextmanager
async def open_pool(url: str, arguments: Mapping[str, Any], size_max: int) -> AsyncGenerator[Pool]:
    """A pool that opens its connections when they are first needed, and closes them all at the end."""
    raw = await run_asyncio(_create, arguments, size_max)
    try:
        yield Pool(raw, size_max, url, PlanUses(size_max))
    finally:
        await finish(_close, raw, seconds=CLOSE_SECONDS, on_expiry=raw.terminate)


async def _close(raw: RawPool) -> None:
    await run_asyncio(raw.close)


async def _create(arguments: Mapping[str, Any], size_max: int) -> RawPool:
    return await driver.create_pool(**arguments, min_size=0, max_size=size_max, init=set_codecs, reset=_keep_session)


async def _keep_session(raw: RawConnection) -> None:
    """Nothing to reset at release, which spares a round trip: no statement in sql/ changes its session (a test)."""


async def _acquire(pool: RawPool, begin: str | None, plans: PlanUses, taken: list[RawConnection]) -> None:
    # A list, because a connection that was had must not be lost when the cancellation comes in the same moment.
    taken.append(await pool.acquire())
    verbs = [] if begin is None else [begin]
    if plans.is_worn(taken[0].get_server_pid()):
        verbs.append(RENEW_PLANS)
    if verbs:
        await taken[0].execute("\n".join(verbs))


async def _end(pool: RawPool, raw: RawConnection, verb: str | None, tags: list[str]) -> None:
    # One passage through the bridge for both; `tags` tells afterwards whether the verb had its answer.
    if verb is not None:
        tags.append(await raw.execute(verb))
    await pool.release(raw)


def _cut_off(taken: list[RawConnection]) -> None:
    for raw in taken:
        driver.cut_off(raw)
