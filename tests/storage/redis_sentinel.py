"""A master, its replica and a sentinel of a test's own, which the test may fail over."""

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager

import hiredis
from attrs import define

from tests.storage.redis_process import RedisProcess, running_redis
from tests.waiting import until

SERVICE = "tayho"
# Both wait five seconds by default, for replicas that other tests do not have.
_REPLICATING = ("--repl-diskless-sync-delay", "0", "--repl-ping-replica-period", "1")
# A sentinel counts a server as down after half a second, and gives a failover two.
_TIMES = ("down-after-milliseconds tayho 500", "failover-timeout tayho 2000")


@define
class SentinelService:
    """The service as its clients see it. `first` is the master until a failover, `second` its replica."""

    first: RedisProcess
    second: RedisProcess
    sentinel: RedisProcess
    # Nobody listens there: every client meets a dead sentinel before the living one.
    dead_port: int

    @property
    def url(self) -> str:
        return f"redis+sentinel://127.0.0.1:{self.dead_port},127.0.0.1:{self.sentinel.port}/{SERVICE}"

    @property
    def servers(self) -> tuple[RedisProcess, ...]:
        return self.first, self.second

    async def fail_over(self) -> None:
        """Make the replica the master while both live; returns when it is."""

        async def begun() -> bool:
            try:
                return await self.sentinel.ask("SENTINEL", "FAILOVER", SERVICE) == "OK"
            except hiredis.ReplyError as error:
                assert "NOGOODSLAVE" in str(error)
                return False

        await until(begun, seconds=15, what="a replica that is fit for the failover")
        await until(self.second_is_master, seconds=15, what="the failover")

    async def replicated(self) -> None:
        """Return once the replica has all that the master has."""

        async def caught_up() -> bool:
            _, offset, replicas = await self.first.ask("ROLE")
            return [int(replica[2]) for replica in replicas] == [offset]

        await until(caught_up, what="the replica to have everything")

    async def second_is_master(self) -> bool:
        """Whether the failover is done, for the sentinel and for both servers that are alive."""
        address = await self.sentinel.ask("SENTINEL", "GET-MASTER-ADDR-BY-NAME", SERVICE)
        return address[1] == str(self.second.port) and (await self.second.ask("ROLE"))[0] == "master"


@asynccontextmanager
async def running_sentinel() -> AsyncGenerator[SentinelService]:
    """A replicating pair under one sentinel, which knows them both."""
    async with AsyncExitStack() as opened:
        first = await opened.enter_async_context(running_redis(*_REPLICATING))
        replica_of = ("--replicaof", f"127.0.0.1 {first.port}")
        second = await opened.enter_async_context(running_redis(*_REPLICATING, *replica_of))
        await until(lambda: _replicates(second), seconds=15, what="the replica's first synchronisation")
        sentinel = await opened.enter_async_context(running_sentinel_of(first.port))
        await until(lambda: _knows_replica(sentinel), seconds=15, what="the sentinel to know the replica")
        async with running_redis() as dead:
            dead_port = dead.port
        yield SentinelService(first, second, sentinel, dead_port)


@asynccontextmanager
async def running_sentinel_of(port: int, *options: str) -> AsyncGenerator[RedisProcess]:
    """A sentinel that takes the server on this port for the service's master."""
    lines = [f"monitor {SERVICE} 127.0.0.1 {port} 1", *_TIMES]
    async with running_redis(
        "--sentinel", *options, configuration="\n".join(f"sentinel {line}" for line in lines)
    ) as one:
        yield one


async def _replicates(replica: RedisProcess) -> bool:
    return "master_link_status:up" in await replica.ask("INFO", "replication")


async def _knows_replica(sentinel: RedisProcess) -> bool:
    replicas = await sentinel.ask("SENTINEL", "REPLICAS", SERVICE)
    return [dict(zip(each[::2], each[1::2], strict=True)).get("master-link-status") for each in replicas] == ["ok"]
