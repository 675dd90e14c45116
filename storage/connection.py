"""One connection in the hands of one task: statements, and how a transaction on it begins and ends."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, Literal, TypeAlias

from nursery.asyncio_bridge import run_asyncio
from storage import driver
from storage.driver import RawConnection
from storage.errors import CommitUnknown, StorageError, StoreUnavailable
from storage.queries import command
from storage.translation import TRANSLATED, cause_of, may_write, translated

# Read by column name: row["state"]. Iteration and comparison are asyncpg's, not a dict's.
Row: TypeAlias = Mapping[str, Any]
Isolation: TypeAlias = Literal["read committed", "repeatable read", "serializable"]

BEGIN: Final[Mapping[Isolation, str]] = {
    "read committed": command("storage/session.begin_read_committed").query.sql,
    "repeatable read": command("storage/session.begin_repeatable_read").query.sql,
    "serializable": command("storage/session.begin_serializable").query.sql,
}
COMMIT: Final = command("storage/session.commit").query.sql
ROLLBACK: Final = command("storage/session.rollback").query.sql
RENEW_PLANS: Final = command("storage/session.renew_plans").query.sql


class ConnectionReturned(Exception):
    """A connection was used after its block had ended: a bug in the caller."""


class Connection:
    """Runs statements. One task uses it at a time; after its `async with` has ended it must not be used.

    Every method raises, besides Trio's Cancelled:

        Conflict, Refused, SerializationLost: the server undid the statement, and the transaction with it.
        StoreUnavailable: the server could not; nothing took effect, and this connection is of no further use.
        CommitUnknown: a statement that may write was running outside a transaction when the connection broke.

    A statement that is cancelled outside a transaction may have taken effect.
    """

    def __init__(self, raw: RawConnection, *, in_transaction: bool) -> None:
        self.raw = raw
        self.in_transaction = in_transaction
        # Invariant: once set, the server end is suspect, and the connection is cut off instead of used again.
        self.fault: StorageError | None = None
        # False once the block that borrowed it has ended: by then it may be in other hands.
        self.lent = True

    def is_in_transaction(self) -> bool:
        """Whether its statements commit together. In asyncpg's words, so that one face fits both."""
        return self.in_transaction

    async def fetch(self, sql: str, *args: object) -> list[Row]:
        """All rows."""
        return await self._run(self.raw.fetch, sql, args)

    async def fetchrow(self, sql: str, *args: object) -> Row | None:
        """The first row, or None."""
        return await self._run(self.raw.fetchrow, sql, args)

    async def fetchval(self, sql: str, *args: object) -> Any:
        """The first column of the first row, or None."""
        return await self._run(self.raw.fetchval, sql, args)

    async def execute(self, sql: str, *args: object) -> str:
        """The command tag, such as `UPDATE 3`. Without arguments `sql` may hold several statements."""
        return await self._run(self.raw.execute, sql, args)

    async def _run(self, ask: Callable[..., Awaitable[Any]], sql: str, args: tuple[object, ...]) -> Any:
        if not self.lent:
            raise ConnectionReturned("a statement was given to a connection whose `async with` block has ended.")
        try:
            return await run_asyncio(ask, sql, *args)
        except TRANSLATED as error:
            refusal = self.refusal(error, commits=not self.in_transaction and may_write(sql))
            if refusal is None:
                raise
            raise refusal from cause_of(error)

    def refusal(self, error: Exception, *, commits: bool) -> StorageError | None:
        """`error` in our words, remembered where it makes the connection suspect; None if it is a bug of ours."""
        meaning = translated(error, connected=driver.is_open(self.raw), commits=commits)
        if isinstance(meaning, StoreUnavailable | CommitUnknown):
            self.fault = meaning
        return meaning

    def cut_off(self) -> None:
        """End it without a word: the server rolls back, and the pool has its place back at once."""
        driver.cut_off(self.raw)
