"""Binds the statements of sql/ to typed callables that take the connection, so that the caller owns the transaction.

A context binds its own queries in its `store.py`, at import, where a wrong reference or kind fails at once.
"""

from collections.abc import Awaitable, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

from attrs import frozen

from storage.query_files import Kind, Query, QueryFileInvalid, all_queries, query

if TYPE_CHECKING:
    # Connection itself binds the verbs of a session.
    from storage.connection import Connection, Row

__all__ = [
    "Command",
    "Fetching",
    "Kind",
    "Many",
    "One",
    "Query",
    "Scalar",
    "all_queries",
    "command",
    "many",
    "one",
    "scalar",
]

_BINDERS: Final = {Kind.MANY: "many", Kind.ONE: "one", Kind.SCALAR: "scalar", Kind.COMMAND: "command"}


class Fetching(Protocol):
    """Whatever runs a statement and gives its rows: our Connection, or an asyncpg one of somebody else's program."""

    def fetch(self, query: str, /, *args: Any) -> Awaitable[Sequence[Any]]:
        """All rows; each is read by column name."""
        ...


@frozen
class Many:
    """A statement that gives rows. For what it may raise see Connection."""

    query: Query

    async def __call__(self, connection: Fetching, *args: object) -> "list[Row]":
        return cast("list[Row]", await connection.fetch(self.query.sql, *args))


@frozen
class One:
    """A statement that gives one row, or None where there is none."""

    query: Query

    async def __call__(self, connection: "Connection", *args: object) -> "Row | None":
        return await connection.fetchrow(self.query.sql, *args)


@frozen
class Scalar:
    """A statement that gives the first column of its first row, or None where there is no row."""

    query: Query

    async def __call__(self, connection: "Connection", *args: object) -> Any:
        return await connection.fetchval(self.query.sql, *args)


@frozen
class Command:
    """A statement that changes rows, and gives their number: zero is a case for the caller to handle."""

    query: Query

    async def __call__(self, connection: "Connection", *args: object) -> int:
        return rows_of(await connection.execute(self.query.sql, *args))


def many(ref: str) -> Many:
    """Bind a query that gives rows. Raises QueryFileInvalid if there is none of this name and kind."""
    return Many(_of_kind(ref, Kind.MANY))


def one(ref: str) -> One:
    """Bind a `^` query."""
    return One(_of_kind(ref, Kind.ONE))


def scalar(ref: str) -> Scalar:
    """Bind a `$` query."""
    return Scalar(_of_kind(ref, Kind.SCALAR))


def command(ref: str) -> Command:
    """Bind a `!` query."""
    return Command(_of_kind(ref, Kind.COMMAND))


def rows_of(tag: str) -> int:
    """The number of rows in a command tag such as `UPDATE 3` or `INSERT 0 1`; 0 where the tag has none."""
    last = tag.rpartition(" ")[2]
    return int(last) if last.isdecimal() else 0


def _of_kind(ref: str, kind: Kind) -> Query:
    found = query(ref)
    if found.kind is not kind:
        raise QueryFileInvalid(
            f"{found.path}:{found.line}: {ref} is of the kind {found.kind.name}: "
            f"bind it with {_BINDERS[found.kind]}(), or change the suffix of its name."
        )
    return found
