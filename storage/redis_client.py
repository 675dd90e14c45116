"""Redis as one process uses it: a shared pool for commands, connections of their own for blocking waits, readiness.

Nothing is retried silently. Whoever asks learns whether the command was not sent, was answered, or is unknown.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final, TypeVar, TypeVarTuple, cast

import trio
from redis.asyncio import ConnectionPool
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

from nursery.asyncio_bridge import ForeignCancelled, run_asyncio
from nursery.cleanup import CleanupExpired, finish
from storage.errors import QueueUnavailable, ReplyLost, StorageError
from storage.redis_url import RedisTarget, parse_redis_url
from storage.redis_wire import Command, Exchange, Pool

VERSION_MIN: Final = (7, 0)
COMMAND_SECONDS: Final = 5.0
CONNECTIONS_MAX: Final = 16
# One blocking connection per queue and waiter.
BLOCKING_CONNECTIONS_MAX: Final = 64
# How much later than asked a blocking reply may come before the connection counts as broken.
BLOCKING_MARGIN_SECONDS: Final = 5.0
HEALTH_CHECK_SECONDS: Final = 15
CLOSE_SECONDS: Final = 5.0
# A shielded call is cut off after the time of this many exchanges that each just made their deadline.
SHIELDED_EXCHANGES: Final = 4

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class RedisServer:
    """One Redis, shared by all queues of the process. Made by `open_redis`."""

    def __init__(self, shown: str, commands: Pool, blocking: Pool, *, command_seconds: float) -> None:
        """`shown` names the server in messages, without credentials."""
        self.shown = shown
        self.command_seconds = command_seconds
        # As the server gives it ("7.0.15"); None before the first successful `check`.
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
        """What keeps this server from carrying a delivery queue, one sentence each; none means ready."""
        try:
            info = _parsed_info(str(await self.ask_one(["INFO"])))
        except StorageError as error:
            return [str(error)]
        self.version = info.get("redis_version")
        return problems_of(info, self.shown)

    async def _exchange(
        self, pool: Pool, slots: trio.CapacityLimiter, commands: Sequence[Command], seconds: float
    ) -> list[object]:
        exchange = Exchange(commands)
        cause: Exception | None = None
        with trio.move_on_after(seconds):
            try:
                async with slots:
                    await run_asyncio(exchange.run, pool)
            except (RedisError, OSError, ForeignCancelled) as error:
                cause = error
        return exchange.outcome(cause, self.shown)


@asynccontextmanager
async def open_redis(url: str, *, command_seconds: float = COMMAND_SECONDS) -> AsyncGenerator[RedisServer]:
    """Redis at `url` (redis, rediss or unix) for this process; the bridge must be open. Connects when first asked.

    `command_seconds` bounds each exchange, from the wait for a free connection to the last reply.

    Raises:
        RedisUrlInvalid: the URL cannot be used.
    """
    target = parse_redis_url(url)
    # Sentinel and Cluster enter here, as other pools behind the same protocol.
    commands = _pool(target, connections_max=CONNECTIONS_MAX, connect_seconds=command_seconds)
    blocking = _pool(target, connections_max=BLOCKING_CONNECTIONS_MAX, connect_seconds=command_seconds)
    try:
        yield RedisServer(target.shown, commands, blocking, command_seconds=command_seconds)
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


def problems_of(info: Mapping[str, str], shown: str) -> list[str]:
    """Judge what INFO says of the server. Pure."""
    problems: list[str] = []
    version = info.get("redis_version", "")
    if _numbers(version) < VERSION_MIN:
        problems.append(f"Redis at {shown} is version {version or 'unknown'}: 7.0 or later is needed.")
    policy = info.get("maxmemory_policy", "not given")
    if policy != "noeviction":
        problems.append(
            f"Redis at {shown} may evict queue records (maxmemory-policy is {policy}): set it to noeviction."
        )
    if info.get("role") == "slave":
        problems.append(f"Redis at {shown} is a replica and takes no writes: point REDIS_URL at its master.")
    if info.get("cluster_enabled") == "1":
        problems.append(f"Redis at {shown} is a cluster node: point REDIS_URL at a single server.")
    return problems


def _pool(target: RedisTarget, *, connections_max: int, connect_seconds: float) -> Pool:
    pool = ConnectionPool(
        max_connections=connections_max,
        # No time limit per read: Exchange.run has the reason, and `_exchange` the limit for the whole.
        socket_timeout=None,
        socket_connect_timeout=connect_seconds,
        health_check_interval=HEALTH_CHECK_SECONDS,
        # redis-py's default sends a command again when its reply is lost: a fetch would take two jobs.
        retry=Retry(NoBackoff(), 0),
        decode_responses=True,
        # A record with bytes that are no UTF-8 must come out as a damaged delivery, not break the whole fetch.
        encoding_errors="surrogateescape",
        # RESP2: the replies that bullmq's scripts and this package were measured with.
        protocol=2,
        client_name="tayho",
        **target.settings,
    )
    return cast("Pool", pool)


async def _close(pool: Pool) -> None:
    try:
        await finish(run_asyncio, pool.aclose, seconds=CLOSE_SECONDS)
    except (RedisError, OSError, CleanupExpired, ForeignCancelled):
        # The process lets go of the pool in any case, and the server notices a dead connection by itself.
        return


def _parsed_info(text: str) -> dict[str, str]:
    pairs = (line.split(":", 1) for line in text.splitlines() if ":" in line and not line.startswith("#"))
    return {key: value.strip() for key, value in pairs}


def _numbers(version: str) -> tuple[int, ...]:
    """ "7.0.15" as (7, 0, 15); what is no number ends it."""
    numbers: list[int] = []
    for part in version.split("."):
        if not part.isdigit():
            break
        numbers.append(int(part))
    return tuple(numbers)
