"""asyncpg carries no types: this is all that storage uses of it, typed, and its only import."""

from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any, Final, Protocol, cast

import asyncpg  # pyright: ignore[reportMissingTypeStubs]

_untyped = cast("Any", asyncpg)


class ServerError(Protocol):
    """The fields of an error report of the server (PostgreSQL documentation, "Error and Notice Message Fields")."""

    args: tuple[str, ...]
    sqlstate: str | None
    severity_en: str | None
    constraint_name: str | None
    detail: str | None


class ServerVersion(Protocol):
    # Of 18.6, asyncpg calls 18 major and 6 micro.
    major: int
    micro: int


class RawStatement(Protocol):
    def get_parameters(self) -> tuple[object, ...]: ...


class RawConnection(Protocol):
    """An asyncpg connection, of a pool or alone. Its coroutines run through the bridge only."""

    async def fetch(self, query: str, *args: object) -> list[Mapping[str, Any]]: ...
    async def fetchrow(self, query: str, *args: object) -> Mapping[str, Any] | None: ...
    async def fetchval(self, query: str, *args: object) -> Any: ...
    async def execute(self, query: str, *args: object) -> str: ...
    async def prepare(self, query: str) -> RawStatement: ...
    async def close(self) -> None: ...
    async def add_listener(self, channel: str, callback: Callable[[object, int, str, str], None]) -> None: ...
    async def set_type_codec(
        self,
        typename: str,
        *,
        schema: str,
        encoder: Callable[[Any], str],
        decoder: Callable[[str], Any],
    ) -> None: ...
    def add_termination_listener(self, callback: Callable[[object], None]) -> None: ...
    def is_closed(self) -> bool: ...
    def is_in_transaction(self) -> bool: ...
    def terminate(self) -> None: ...
    def get_server_version(self) -> ServerVersion: ...
    def get_server_pid(self) -> int: ...


class RawPool(Protocol):
    async def acquire(self) -> RawConnection: ...
    async def release(self, connection: RawConnection) -> None: ...
    async def expire_connections(self) -> None: ...
    async def close(self) -> None: ...
    def terminate(self) -> None: ...
    def get_size(self) -> int: ...
    def get_idle_size(self) -> int: ...


PostgresError = cast("type[Exception]", _untyped.PostgresError)
# asyncpg's own complaints: a closed connection, but also a wrong use of it, which is a bug of ours.
InterfaceError = cast("type[Exception]", _untyped.InterfaceError)
InvalidCachedStatement = cast("type[Exception]", _untyped.InvalidCachedStatementError)
# The wire protocol broke, or no host is the writer.
InternalClientError = cast("type[Exception]", _untyped.InternalClientError)

FOREIGN: Final = (PostgresError, InterfaceError, InternalClientError, OSError, TimeoutError)

# asyncpg 0.32 closes the socket of a connect that is cancelled or timed out. If that happens in its TLS question, a
# future stays behind with an error that nobody awaits, and trio-asyncio ends the whole process for such a one. Asking
# for the error marks it as seen; whoever does await it still gets it. (tests/storage/test_cancellation.py)
_upgrade = _untyped.connect_utils.TLSUpgradeProto
_upgrade_lost = _upgrade.connection_lost


def _lost_and_seen(upgrade: Any, error: Exception | None) -> None:
    _upgrade_lost(upgrade, error)
    if not upgrade.on_data.cancelled():
        upgrade.on_data.exception()


_upgrade.connection_lost = _lost_and_seen

connect = cast("Callable[..., Awaitable[RawConnection]]", _untyped.connect)
create_pool = cast("Callable[..., Awaitable[RawPool]]", _untyped.create_pool)


def is_open(connection: RawConnection) -> bool:
    """Whether the connection can still be used. A pooled one that was cut off can only say so by an error."""
    try:
        return not connection.is_closed()
    except InterfaceError:
        return False


def cut_off(connection: RawConnection) -> None:
    """End a connection without a word: the server rolls back, and the pool has its place back at once."""
    # asyncpg's complaint, if it has one, is that the connection is in the pool again already.
    with suppress(InterfaceError):
        connection.terminate()
