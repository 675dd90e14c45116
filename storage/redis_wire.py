"""One exchange with Redis on one connection: commands out, replies in, and never a doubt about what was sent.

redis-py's own pipeline loses the replies that had come when a later one does not, cannot tell a command that was never
sent from one whose reply was lost, and may send twice. For a script that takes a job out of a queue each of these
orphans jobs, so the exchange is made of redis-py's connection and pool only.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, Protocol, cast

import hiredis
from redis.exceptions import (
    BusyLoadingError,
    ClusterDownError,
    ConnectionError,  # noqa: A004 - redis-py's
    MasterDownError,
    NoScriptError,
    OutOfMemoryError,
    ReadOnlyError,
    RedisError,
    ResponseError,
    TryAgainError,
)

from storage.errors import QueueUnavailable, ReplyLost, StorageError

Argument = str | bytes | int | float
Command = Sequence[Argument]

# Its stub says that a command has one part.
_pack_command = cast("Callable[[tuple[Argument, ...]], bytes]", cast("Any", hiredis).pack_command)
_MESSAGE_LENGTH_MAX: Final = 200
_SERVER_AT_FAULT: Final = (
    BusyLoadingError,
    ClusterDownError,
    ConnectionError,
    MasterDownError,
    OutOfMemoryError,
    ReadOnlyError,
    TryAgainError,
)
# Error codes without a class of their own in redis-py. UNBLOCKED ends a blocking wait when a master becomes a replica.
_SERVER_AT_FAULT_CODES: Final = ("BUSY ", "MISCONF ", "NOREPLICAS ", "UNBLOCKED ", "UNKILLABLE ")


class QueueRefused(StorageError):
    """Redis refused a command: a key of another type, a missing privilege, a script that broke on spoilt data.

    Trying again does not help. A script may have broken halfway.
    """


class ScriptMissing(StorageError):
    """Redis does not have this script (yet, or again after SCRIPT FLUSH or a restart); nothing was executed."""


class Connection(Protocol):
    """What is used of redis-py's connection, which is only partly typed."""

    async def connect(self) -> None: ...
    async def disconnect(self, nowait: bool = False) -> None: ...
    async def check_health(self) -> None: ...
    async def send_packed_command(self, command: Iterable[bytes], check_health: bool = True) -> None: ...
    async def read_response(self) -> Any: ...


class Pool(Protocol):
    """What is used of redis-py's connection pools: the single node's here, later Sentinel's too."""

    async def get_connection(self) -> Any: ...
    async def release(self, connection: Any) -> None: ...
    async def aclose(self) -> None: ...


class Exchange:
    """Some commands and, one after the other, their replies.

    Invariant: `replies` belong to the first commands, in order. A command without one was executed or was not, if
    `sent`; else nothing was executed.
    """

    def __init__(self, commands: Sequence[Command]) -> None:
        self.commands = commands
        self.replies: list[object] = []
        self.sent = False

    async def run(self, pool: Pool) -> None:
        """Send everything and read every reply. An asyncio coroutine function.

        The connection must have no read timeout of its own: redis-py's ends a slow read as if no reply were due and
        keeps the connection, whose next command then reads the wrong reply. Whatever goes wrong here closes it.

        Raises:
            RedisError, OSError: the connection could not be had or broke.
        """
        connection: Connection = await pool.get_connection()
        # The awaits of this cleanup need no shield: asyncio delivers a cancellation once, not at every await.
        try:
            await _freshened(connection)
            packed = b"".join(map(_packed, self.commands))
            self.sent = True
            await connection.send_packed_command([packed], check_health=False)
            while len(self.replies) < len(self.commands):
                self.replies.append(await _reply(connection))
        except BaseException:
            await connection.disconnect(nowait=True)
            raise
        finally:
            await pool.release(connection)

    def outcome(self, cause: BaseException | None, redis: str) -> list[object]:
        """One value per command: its reply, an error reply as a StorageError, or a ReplyLost where none came.

        Raises:
            QueueUnavailable: nothing was sent.
        """
        why = "it did not answer in time" if cause is None else _shortened(cause)
        if not self.sent:
            raise QueueUnavailable(f"Redis at {redis} cannot be reached: {why}.") from cause
        missing = len(self.commands) - len(self.replies)
        if not missing:
            return self.replies
        lost = ReplyLost(f"Redis at {redis} did not answer {missing} of {len(self.commands)} commands: {why}.")
        lost.__cause__ = cause
        return [*self.replies, *[lost] * missing]


def _packed(command: Command) -> bytes:
    """The command as Redis reads it, by hiredis: redis-py's own packing costs a third of a busy process."""
    try:
        return _pack_command(tuple(command))
    except UnicodeEncodeError:
        # A name that came out of Redis as bytes that are no UTF-8 goes back as the same bytes.
        raw = (each.encode(errors="surrogateescape") if isinstance(each, str) else each for each in command)
        return _pack_command(tuple(raw))


async def _freshened(connection: Connection) -> None:
    """Prove that a connection which was idle for long still reaches Redis; replace it if it does not.

    Between the two a firewall may have dropped the connection without a word, and the command would be lost in it.
    """
    try:
        await connection.check_health()
    except (RedisError, OSError):
        await connection.disconnect(nowait=True)
        await connection.connect()


async def _reply(connection: Connection) -> object:
    """One reply; an error reply is returned, because the replies of other commands come after it."""
    try:
        return await connection.read_response()
    except ResponseError as error:
        return _translated(error)


def _translated(error: ResponseError) -> StorageError:
    """What an error reply means."""
    if isinstance(error, NoScriptError):
        return ScriptMissing(_shortened(error))
    ours = QueueRefused(f"Redis refused a command: {_shortened(error)}.")
    if isinstance(error, _SERVER_AT_FAULT) or str(error).startswith(_SERVER_AT_FAULT_CODES):
        ours = QueueUnavailable(f"Redis cannot do the work now: {_shortened(error)}.")
    ours.__cause__ = error
    return ours


def _shortened(error: BaseException) -> str:
    text = str(error).strip().rstrip(".") or type(error).__name__
    return text if len(text) <= _MESSAGE_LENGTH_MAX else text[:_MESSAGE_LENGTH_MAX] + "…"
