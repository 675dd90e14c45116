"""Redis behind Sentinel: connections that lead to the master, whichever server that is when they are taken.

redis-py's own Sentinel pool turns the READONLY of a demoted master into a broken connection, so that what was surely
not executed would count as unknown; it asks with retries; it believes a sentinel that is behind the times; and it
stays with a master that was replaced alive, which takes writes for seconds more, until its connections break.
"""

import time
from typing import Any, Final, cast
from weakref import WeakSet

from redis.asyncio.connection import Connection, SSLConnection
from redis.exceptions import (
    ConnectionError,  # noqa: A004 - redis-py's
    RedisError,
)

from storage.redis_guides import Guides
from storage.redis_pools import is_tls, new_pool
from storage.redis_url import Address, SentinelTarget, shown_address
from storage.redis_wire import Pool

# For how long a master is believed to be the master without asking: a replaced one, if it lives, learns of it late.
BELIEVED_SECONDS: Final = 1.0
# The same while no sentinel answers: each time, exchanges wait for all of them in vain.
UNWATCHED_SECONDS: Final = 30.0


class Sentinels:
    """The sentinels of one service, and the master that was found through them last.

    Invariant: an exchange begins only on a connection to `master`. Those to an earlier one may be to a server that
    still takes writes, which would be lost.
    """

    def __init__(self, target: SentinelTarget) -> None:
        self._service = target.service
        self._guides = Guides(target.sentinels, target.sentinel_settings)
        # By the monotonic clock.
        self._ask_at = 0.0
        self.master: Address | None = None
        # Connections in which a command may wait for long, at a server that was replaced meanwhile.
        self.waiting: WeakSet[_ToMaster] = WeakSet()

    async def lead(self, connection: "_ToMaster") -> None:
        """Connect it to the master. Raises ConnectionError if there is none."""

        async def heed(_sentinel: Address, answer: list[str] | None) -> Address:
            address = self._named(answer)
            await connection.connect_to_master(address)
            return address

        self.master = await self._guides.ask(self._question, heed)
        self._ask_at = time.monotonic() + BELIEVED_SECONDS
        for each in tuple(self.waiting):
            if each.address != self.master:
                await each.disconnect(nowait=True)

    async def still_name(self, address: Address) -> bool:
        """Whether this is the master, as was heard within BELIEVED_SECONDS; yes also if no sentinel can be heard.

        Callers at the same moment each ask: one that did not wait could still use a master that is none.
        """
        if address != self.master or time.monotonic() < self._ask_at:
            return address == self.master

        try:
            named = await self._guides.ask(self._question, self._heard)
        except (RedisError, OSError):
            self._ask_at = time.monotonic() + UNWATCHED_SECONDS
            return True
        if named == address:
            self._ask_at = time.monotonic() + BELIEVED_SECONDS
        return named == address

    async def _heard(self, _sentinel: Address, answer: list[str] | None) -> Address:  # noqa: ASYNC124 - as guides are heeded
        return self._named(answer)

    @property
    def _question(self) -> tuple[str, ...]:
        return ("SENTINEL", "GET-MASTER-ADDR-BY-NAME", self._service)

    def _named(self, answer: list[str] | None) -> Address:
        if answer is None:
            raise ConnectionError(f"this sentinel knows no service {self._service}")
        return answer[0], int(answer[1])


def master_pool(
    target: SentinelTarget, sentinels: Sentinels, *, connections_max: int, connect_seconds: float, is_waiting: bool
) -> Pool:
    """A pool whose connections lead to the master of the moment. Pools of one target share its `sentinels`.

    `is_waiting`: what it carries may wait for long, and is cut off when the master is another.
    """
    settings = {
        **target.settings,
        "connection_class": _TlsToMaster if is_tls(target.settings) else _ToMaster,
        "sentinels": sentinels,
        "is_waiting": is_waiting,
    }
    return new_pool(settings, connections_max=connections_max, connect_seconds=connect_seconds)


class _ToMaster(Connection):
    """A connection that finds its server whenever it is made, and is made again once the master is another."""

    def __init__(self, *, sentinels: Sentinels, is_waiting: bool, **settings: Any) -> None:
        # redis-py leaves its options untyped.
        cast("Any", super()).__init__(**settings)
        self._sentinels = sentinels
        if is_waiting:
            sentinels.waiting.add(self)

    @property
    def address(self) -> Address:
        """Where it leads, or led last."""
        return self.host, self.port

    async def connect(self) -> None:
        """As redis-py's, which its pool calls whenever it hands a connection out."""
        if self.is_connected:
            if await self._sentinels.still_name(self.address):
                return
            await self.disconnect(nowait=True)
        await self._sentinels.lead(self)

    async def connect_to_master(self, address: Address) -> None:
        """Connect to this server, which must take itself for a master. Raises RedisError, OSError."""
        self.host, self.port = address
        await super().connect()
        # Not ROLE, which would ask for a privilege more than readiness needs.
        await self.send_command("INFO", "replication", check_health=False)
        if "role:master" not in cast("str", await self.read_response()).split():
            await self.disconnect(nowait=True)
            raise ConnectionError(f"this sentinel names {shown_address(address)}, which is a replica")


class _TlsToMaster(_ToMaster, SSLConnection):
    """The same, encrypted."""
