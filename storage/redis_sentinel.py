"""Redis behind Sentinel: connections that lead to the master, whichever server that is when they are taken.

redis-py's own Sentinel pool turns the READONLY of a demoted master into a broken connection, so that what was surely
not executed would count as unknown; it asks with retries; and it believes a sentinel that is behind the times.
"""

from typing import Any, cast

from redis.asyncio.connection import Connection, SSLConnection
from redis.exceptions import ConnectionError  # noqa: A004 - redis-py's

from storage.redis_guides import Guides
from storage.redis_pools import is_tls, new_pool
from storage.redis_url import Address, SentinelTarget, shown_address
from storage.redis_wire import Pool


class Sentinels:
    """The sentinels of one service, and the master that was found through them last.

    Invariant: a connection is used only while it leads to `master`. Those to an earlier one may be to a server that
    is cut off from the sentinels and still takes writes, which would be lost.
    """

    def __init__(self, target: SentinelTarget) -> None:
        self.service = target.service
        self.guides = Guides(target.sentinels, target.sentinel_settings)
        self.master: Address | None = None


def master_pool(target: SentinelTarget, sentinels: Sentinels, *, connections_max: int, connect_seconds: float) -> Pool:
    """A pool whose connections lead to the master of the moment. Pools of one target share its `sentinels`."""
    settings = {
        **target.settings,
        "connection_class": _TlsToMaster if is_tls(target.settings) else _ToMaster,
        "sentinels": sentinels,
    }
    return new_pool(settings, connections_max=connections_max, connect_seconds=connect_seconds)


class _ToMaster(Connection):
    """A connection that finds its server whenever it is made, and is made again once the master is another."""

    def __init__(self, *, sentinels: Sentinels, **settings: Any) -> None:
        # redis-py leaves its options untyped.
        cast("Any", super()).__init__(**settings)
        self._sentinels = sentinels

    async def connect(self) -> None:
        """As redis-py's, which its pool calls whenever it hands a connection out."""
        if self.is_connected:
            if (self.host, self.port) == self._sentinels.master:
                return
            await self.disconnect(nowait=True)
        command = ("SENTINEL", "GET-MASTER-ADDR-BY-NAME", self._sentinels.service)
        self._sentinels.master = await self._sentinels.guides.ask(command, self._connect_as_told)

    async def _connect_as_told(self, _sentinel: Address, answer: list[str] | None) -> Address:
        """Connect to the server of this answer, which must take itself for a master."""
        if answer is None:
            raise ConnectionError(f"this sentinel knows no service {self._sentinels.service}")
        self.host, self.port = answer[0], int(answer[1])
        await super().connect()
        # Not ROLE, which would ask for a privilege more than readiness needs.
        await self.send_command("INFO", "replication", check_health=False)
        if "role:master" not in cast("str", await self.read_response()).split():
            await self.disconnect(nowait=True)
            raise ConnectionError(f"this sentinel names {shown_address((self.host, self.port))}, which is a replica")
        return self.host, self.port


class _TlsToMaster(_ToMaster, SSLConnection):
    """The same, encrypted."""
