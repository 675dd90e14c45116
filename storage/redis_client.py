"""Redis as one process uses it: a shared pool for commands, connections of their own for blocking waits, readiness.

Nothing is retried silently. Whoever asks learns whether the command was not sent, was answered, or is unknown.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final, TypeVar, TypeVarTuple

import trio
from redis.exceptions import RedisError

from nursery.asyncio_bridge import ForeignCancelled, run_asyncio
from nursery.cleanup import CleanupExpired, finish
from storage.errors import QueueUnavailable, ReplyLost, StorageError
from storage.redis_carrier import Carrier, OneServer
from storage.redis_cluster import Cluster, SlotMap
from storage.redis_pools import new_pool
from storage.redis_readiness import parsed_info, problems_of, version_numbers
from storage.redis_sentinel import Sentinels, master_pool
from storage.redis_url import ClusterTarget, RedisTarget, SentinelTarget, parse_redis_url
from storage.redis_wire import Command, Exchange, unreachable

COMMAND_SECONDS: Final = 5.0
CONNECTIONS_MAX: Final = 16
# One blocking connection per queue and waiter.
BLOCKING_CONNECTIONS_MAX: Final = 64
# How much later than asked a blocking reply may come before the connection counts as broken.
BLOCKING_MARGIN_SECONDS: Final = 5.0
CLOSE_SECONDS: Final = 5.0
# A shielded call is cut off after the time of this many exchanges that each just made their deadline.
SHIELDED_EXCHANGES: Final = 4

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class RedisServer:
    """One Redis, shared by all queues of the process: a server, or several that act as one. Made by `open_redis`."""

    def __init__(
        self, shown: str, commands: Carrier, blocking: Carrier, *, command_seconds: float, is_cluster: bool
    ) -> None:
        """`shown` names it in messages, without credentials. In a cluster the keys of a queue must share a slot."""
        self.shown = shown
        self.is_cluster = is_cluster
        self.command_seconds = command_seconds
        # As the server gives it ("7.0.15"), of several the oldest's; None before the first successful `check`.
        self.version: str | None = None
        self._commands = commands
        self._blocking = blocking
        # Invariant: never more callers in a pool than it has connections, so that a burst waits instead of failing.
        self._command_slots = trio.CapacityLimiter(CONNECTIONS_MAX)
        self._blocking_slots = trio.CapacityLimiter(BLOCKING_CONNECTIONS_MAX)

    async def ask(self, commands: Sequence[Command]) -> list[object]:
        """Send the commands in one round trip; one reply or StorageError instance for each, in order.

        A command whose reply was lost has a ReplyLost in its place. Cancelling closes the connection; what was sent
        by then may have been executed.

        Raises:
            QueueUnavailable: nothing was sent.
        """
        return await self._exchange(self._commands, self._command_slots, commands, self.command_seconds)

    async def ask_one(self, command: Command) -> Any:
        """The reply to one command that may be sent again without harm.

        Raises:
            QueueUnavailable: no reply was had.
            QueueRefused: Redis refused it.
        """
        return repeatable((await self.ask([command]))[0])

    async def block(self, command: Command, *, seconds: float) -> Any:
        """The reply to a command that Redis itself ends after `seconds`, on a connection of its own.

        Raises:
            QueueUnavailable: it was not sent. ReplyLost: its reply was lost. QueueRefused: Redis refused it.
        """
        deadline_seconds = seconds + BLOCKING_MARGIN_SECONDS
        [reply] = await self._exchange(self._blocking, self._blocking_slots, [command], deadline_seconds)
        if isinstance(reply, StorageError):
            raise reply
        return reply

    async def shielded(self, fn: Callable[[*Ts], Awaitable[T]], *args: *Ts) -> T:
        """Run a few exchanges to their end although the caller is cancelled. Each of them has a deadline of its own.

        Raises:
            ReplyLost: they did not end in time, all deadlines together.
        """
        seconds = SHIELDED_EXCHANGES * self.command_seconds
        try:
            return await finish(fn, *args, seconds=seconds)
        except CleanupExpired as error:
            raise ReplyLost(f"Redis at {self.shown} did not answer within {seconds:g} s.") from error

    async def check(self) -> list[str]:
        """What keeps Redis from carrying a delivery queue, one sentence each; none means ready."""
        problems: list[str] = []
        versions: list[str] = []
        try:
            for shown, carrier in await self._masters():
                asked = [["INFO"], ["CLUSTER", "INFO"]] if self.is_cluster else [["INFO"]]
                replies = await self._exchange(carrier, self._command_slots, asked, self.command_seconds)
                info = parsed_info("\n".join(str(repeatable(reply)) for reply in replies))
                versions.append(info.get("redis_version", ""))
                problems += problems_of(info, shown, is_cluster=self.is_cluster)
        except StorageError as error:
            return [*problems, str(error)]
        self.version = min(versions, key=version_numbers)
        return problems

    async def _masters(self) -> Sequence[tuple[str, Carrier]]:
        """Every server whose fitness counts. Raises QueueUnavailable."""
        cause: Exception | None = None
        with trio.move_on_after(self.command_seconds):
            try:
                return await run_asyncio(self._commands.masters)
            except (RedisError, OSError, ForeignCancelled) as error:
                cause = error
        raise unreachable(self.shown, cause) from cause

    async def _exchange(
        self, carrier: Carrier, slots: trio.CapacityLimiter, commands: Sequence[Command], seconds: float
    ) -> list[object]:
        exchange = Exchange(commands)
        cause: Exception | None = None
        with trio.move_on_after(seconds):
            try:
                async with slots:
                    await run_asyncio(carrier.carry, exchange)
            except (RedisError, OSError, ForeignCancelled) as error:
                cause = error
        return exchange.outcome(cause, self.shown)


@asynccontextmanager
async def open_redis(url: str, *, command_seconds: float = COMMAND_SECONDS) -> AsyncGenerator[RedisServer]:
    """Redis at `url`, in any of the forms of storage.redis_url; the bridge must be open. Connects when first asked.

    `command_seconds` bounds each exchange, from the wait for a free connection to the last reply.

    Raises:
        RedisUrlInvalid: the URL cannot be used.
    """
    target = parse_redis_url(url)
    commands, blocking = _carriers(target, connect_seconds=command_seconds)
    is_cluster = isinstance(target, ClusterTarget)
    try:
        yield RedisServer(target.shown, commands, blocking, command_seconds=command_seconds, is_cluster=is_cluster)
    finally:
        await _close(blocking)
        await _close(commands)


def repeatable(reply: object) -> object:
    """The reply to a command that may be sent again: for such, a lost reply is no more than an absent server.

    Raises:
        QueueUnavailable: no reply was had. Another StorageError: the reply is this error.
    """
    if isinstance(reply, ReplyLost):
        raise QueueUnavailable(str(reply)) from reply
    if isinstance(reply, StorageError):
        raise reply
    return reply


def _carriers(target: RedisTarget, connect_seconds: float) -> tuple[Carrier, Carrier]:
    """The ways for commands and for blocking waits."""
    match target:
        case ClusterTarget():
            carrier = partial(Cluster, SlotMap(target), target.settings, connect_seconds=connect_seconds)
            return carrier(connections_max=CONNECTIONS_MAX), carrier(connections_max=BLOCKING_CONNECTIONS_MAX)
        case SentinelTarget():
            pool = partial(master_pool, target, Sentinels(target), connect_seconds=connect_seconds)
            commands = pool(connections_max=CONNECTIONS_MAX, is_waiting=False)
            blocking = pool(connections_max=BLOCKING_CONNECTIONS_MAX, is_waiting=True)
        case _:
            pool = partial(new_pool, target.settings, connect_seconds=connect_seconds)
            commands = pool(connections_max=CONNECTIONS_MAX)
            blocking = pool(connections_max=BLOCKING_CONNECTIONS_MAX)
    return OneServer(commands, target.shown), OneServer(blocking, target.shown)


async def _close(carrier: Carrier) -> None:
    try:
        await finish(run_asyncio, carrier.aclose, seconds=CLOSE_SECONDS)
    except (RedisError, OSError, CleanupExpired, ForeignCancelled):
        # The process lets go of the connections in any case, and the server notices a dead connection by itself.
        return
