"""One exchange with Redis on one connection: commands out, replies in, and never a doubt about what was sent.

redis-py's own pipeline loses the replies that had come when a later one does not, cannot tell a command that was never
sent from one whose reply was lost, and may send twice. For a script that takes a job out of a queue each of these
orphans jobs, so the exchange is made of redis-py's connection and pool only.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, Protocol, cast

import hiredis
from redis.exceptions import (
    AskError,
    BusyLoadingError,
    ClusterDownError,
    ConnectionError,  # noqa: A004 - redis-py's
    MasterDownError,
    MovedError,
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
    ConnectionError,
    OutOfMemoryError,
    TryAgainError,
)
# Error codes without a class of their own in redis-py.
_SERVER_AT_FAULT_CODES: Final = ("BUSY ", "MISCONF ", "NOREPLICAS ", "UNKILLABLE ")
# CLUSTERDOWN is also what a node says that was cut off from the others, which may have replaced it.
_NO_MASTER: Final = (ClusterDownError, MasterDownError, ReadOnlyError)
# It ends a blocking wait when a master becomes a replica.
_NO_MASTER_CODE: Final = "UNBLOCKED "
# A key that a script computes may have left a slot that is being moved: the script breaks where it meets it.
_BROKEN_OFF: Final = "Script attempted to access a non local key"


class QueueRefused(StorageError):
    """Redis refused a command: a key of another type, a missing privilege, a script that broke on spoilt data.

    Trying again does not help. A script may have broken halfway.
    """


class ScriptMissing(StorageError):
    """Redis does not have this script (yet, or again after SCRIPT FLUSH or a restart); nothing was executed."""


class Deposed(QueueUnavailable):
    """The server is no master, or knows of no whole cluster. Nothing was executed; another may do this work."""


class Redirected(QueueUnavailable):
    """A node of a cluster does not own the command's slot, or not any more. Nothing was executed."""

    def __init__(self, message: str, *, host: str, port: int, is_asking: bool) -> None:
        """Who has the slot: `host` is empty where it is the host of the node that said so.

        `is_asking`: the slot is still being moved there, and this command alone is to be sent there, after ASKING.
        """
        super().__init__(message)
        self.host = host
        self.port = port
        self.is_asking = is_asking


class Connection(Protocol):
    """What is used of redis-py's connection, which is only partly typed."""

    async def connect(self) -> None: ...
    async def disconnect(self, nowait: bool = False) -> None: ...
    async def check_health(self) -> None: ...
    async def send_packed_command(self, command: Iterable[bytes], check_health: bool = True) -> None: ...
    async def read_response(self) -> Any: ...


class Pool(Protocol):
    """What is used of redis-py's connection pools, one server's or that of whichever server is master."""

    async def get_connection(self) -> Any: ...
    async def release(self, connection: Any) -> None: ...
    async def disconnect(self, inuse_connections: bool = True) -> None: ...
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
        # Whether a reply is Redirected, or Deposed.
        self.is_redirected = False
        self.is_deposed = False

    async def run(self, pool: Pool) -> None:
        """Send everything and read every reply. An asyncio coroutine function.

        The connection must have no read timeout of its own: redis-py's ends a slow read as if no reply were due and
        keeps the connection, whose next command then reads the wrong reply. Whatever goes wrong here closes it, and so
        does a server that is no master: the next connection may lead to another.

        Raises:
            RedisError, OSError: the connection could not be had or broke.
        """
        connection: Connection = await pool.get_connection()
        # The awaits of this cleanup need no shield: asyncio delivers a cancellation once, not at every await.
        try:
            await _freshened(connection)
            packed = b"".join(map(packed_command, self.commands))
            self.sent = True
            await connection.send_packed_command([packed], check_health=False)
            while len(self.replies) < len(self.commands):
                self.replies.append(await self._reply(connection))
            if self.is_deposed:
                await connection.disconnect(nowait=True)
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
        if not self.sent:
            raise unreachable(redis, cause) from cause
        missing = len(self.commands) - len(self.replies)
        if not missing:
            return self.replies
        of_all = f"{missing} of {len(self.commands)}"
        lost = ReplyLost(f"Redis at {redis} did not answer {of_all} commands: {_reason(cause)}.")
        lost.__cause__ = cause
        return [*self.replies, *[lost] * missing]

    async def _reply(self, connection: Connection) -> object:
        """One reply; an error reply is returned, because the replies of other commands come after it."""
        try:
            return await connection.read_response()
        except ResponseError as error:
            ours = _translated(error)
            self.is_redirected |= isinstance(ours, Redirected)
            self.is_deposed |= isinstance(ours, Deposed)
            return ours


def unreachable(redis: str, cause: BaseException | None) -> QueueUnavailable:
    """Nothing could be sent; without a cause, because the time was up."""
    return QueueUnavailable(f"Redis at {redis} cannot be reached: {_reason(cause)}.")


def packed_command(command: Command) -> bytes:
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


def _translated(error: ResponseError) -> StorageError:
    """What an error reply means."""
    if isinstance(error, NoScriptError):
        return ScriptMissing(_shortened(error))
    text = str(error)
    if isinstance(error, AskError):
        ours = _redirected(error)
    elif isinstance(error, _NO_MASTER) or text.startswith(_NO_MASTER_CODE):
        ours = Deposed(f"Redis cannot do the work now: {_shortened(error)}.")
    elif isinstance(error, _SERVER_AT_FAULT) or text.startswith(_SERVER_AT_FAULT_CODES):
        ours = QueueUnavailable(f"Redis cannot do the work now: {_shortened(error)}.")
    elif text.startswith(_BROKEN_OFF):
        ours = ReplyLost(f"Redis broke a script off on the way: {_shortened(error)}.")
    else:
        ours = QueueRefused(f"Redis refused a command: {_shortened(error)}.")
    ours.__cause__ = error
    return ours


def _redirected(error: AskError) -> Redirected:
    """redis-py has MOVED as a kind of ASK."""
    host = cast("str", cast("Any", error).host)
    message = f"Redis keeps slot {error.slot_id} on another node, {host}:{error.port}."
    return Redirected(message, host=host, port=error.port, is_asking=not isinstance(error, MovedError))


def _reason(cause: BaseException | None) -> str:
    return "it did not answer in time" if cause is None else _shortened(cause)


def _shortened(error: BaseException) -> str:
    text = str(error).strip().rstrip(".") or type(error).__name__
    return text if len(text) <= _MESSAGE_LENGTH_MAX else text[:_MESSAGE_LENGTH_MAX] + "…"
