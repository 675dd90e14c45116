"""A Redis Cluster of three masters of a test's own, whose slots the test may move."""

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import pairwise

from attrs import define
from redis.crc import key_slot

from tests.storage.redis_process import RedisProcess, free_port, running_redis
from tests.waiting import until

MASTERS = 3
SLOTS = 16_384


@define
class RedisCluster:
    """The masters, each the owner of a third of the slots at first."""

    servers: list[RedisProcess]
    buses: list[int]
    node_ids: list[str]

    @property
    def url(self) -> str:
        return "redis+cluster://" + ",".join(f"127.0.0.1:{server.port}" for server in self.servers)

    def owner_of(self, key: str) -> int:
        """Which master owned the key's slot at first."""
        return next(at for at, (first, last) in enumerate(_ranges()) if first <= key_slot(key.encode()) <= last)

    @asynccontextmanager
    async def replica_of(self, master: int) -> AsyncGenerator[RedisProcess]:
        """A further node that replicates this master."""
        async with _running_node(free_port()) as replica:
            await replica.ask("CLUSTER", "MEET", "127.0.0.1", self.servers[0].port, self.buses[0])
            await until(lambda: _is_whole(replica), seconds=20, what="the new node to know the cluster")
            await replica.ask("CLUSTER", "REPLICATE", self.node_ids[master])
            yield replica

    async def begin_move(self, key: str, source: int, target: int) -> None:
        """Let the slot of the key be on its way from the source to the target, with every key still at the source."""
        slot = key_slot(key.encode())
        await self.servers[target].ask("CLUSTER", "SETSLOT", slot, "IMPORTING", self.node_ids[source])
        await self.servers[source].ask("CLUSTER", "SETSLOT", slot, "MIGRATING", self.node_ids[target])

    async def move_keys(self, key: str, source: int, target: int, *, count: int) -> bool:
        """Move up to `count` keys of the slot; False if there were none."""
        keys = await self.servers[source].ask("CLUSTER", "GETKEYSINSLOT", key_slot(key.encode()), count)
        if keys:
            address = ("127.0.0.1", self.servers[target].port)
            await self.servers[source].ask("MIGRATE", *address, "", 0, 5000, "KEYS", *keys)
        return bool(keys)

    async def end_move(self, key: str, target: int) -> None:
        """Give the slot, whose keys are all moved, to the target; returns when every master has heard of it.

        Before that, the next move could begin under an epoch that another node claims too, and be undone.
        """
        for server in (self.servers[target], *self.servers):
            await server.ask("CLUSTER", "SETSLOT", key_slot(key.encode()), "NODE", self.node_ids[target])
        await until(self._agrees, seconds=10, what="the masters to agree on the slot's owner")

    async def _agrees(self) -> bool:
        """Whether all masters have the same epoch and slots for each."""
        seen: set[frozenset[tuple[str, ...]]] = set()
        for server in self.servers:
            nodes = [line.split() for line in (await server.ask("CLUSTER", "NODES")).splitlines()]
            seen.add(frozenset((node[0], node[6], *node[8:]) for node in nodes))
        return len(seen) == 1

    async def move(self, key: str, source: int, target: int) -> None:
        """Move the slot of the key, few keys at a time."""
        await self.begin_move(key, source, target)
        while await self.move_keys(key, source, target, count=5):
            pass
        await self.end_move(key, target)


@asynccontextmanager
async def running_cluster() -> AsyncGenerator[RedisCluster]:
    """Three masters that agree who owns what."""
    async with AsyncExitStack() as opened:
        servers: list[RedisProcess] = []
        buses: list[int] = []
        for (first, last), epoch in zip(_ranges(), range(1, MASTERS + 1), strict=True):
            buses.append(free_port())
            server = await opened.enter_async_context(_running_node(buses[-1]))
            await server.ask("CLUSTER", "ADDSLOTSRANGE", first, last)
            await server.ask("CLUSTER", "SET-CONFIG-EPOCH", epoch)
            servers.append(server)
        for server in servers[1:]:
            await server.ask("CLUSTER", "MEET", "127.0.0.1", servers[0].port, buses[0])
        for server in servers:
            await until(lambda server=server: _is_whole(server), seconds=20, what="the cluster to be whole")
        yield RedisCluster(servers, buses, [await server.ask("CLUSTER", "MYID") for server in servers])


@asynccontextmanager
async def _running_node(bus: int) -> AsyncGenerator[RedisProcess]:
    """A node that knows no other. By default its bus would be on its port + 10000, which may not exist."""
    options = ("--cluster-port", str(bus), "--cluster-node-timeout", "2000", "--repl-diskless-sync-delay", "0")
    async with running_redis("--cluster-enabled", "yes", *options) as node:
        yield node


async def _is_whole(server: RedisProcess) -> bool:
    whole = "cluster_state:ok" in await server.ask("CLUSTER", "INFO")
    return whole and len(await server.ask("CLUSTER", "SLOTS")) == MASTERS


def _ranges() -> list[tuple[int, int]]:
    bounds = [SLOTS * at // MASTERS for at in range(MASTERS + 1)]
    return [(first, after - 1) for first, after in pairwise(bounds)]
