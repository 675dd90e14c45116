"""One replica inside the test's own loop: a coordination that publishes, works and recovers, and that can be killed."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import trio
from attrs import define, field

from nursery.coalesce import CoalescerClosed
from nursery.drain import Drain
from storage.database import Database
from storage.delivery import DeliveryQueue
from storage.errors import StorageError
from storage.redis_client import RedisServer, open_redis
from tayho.coordination.module import Coordination
from tayho.coordination.types import Handler
from tests.services.proxy import FaultProxy, fault_proxy
from tests.simulation.delivery.clockwork import (
    COMMAND_SECONDS,
    DRAIN_SECONDS,
    KIND,
    LOCK_SECONDS,
    SETTINGS,
    STALLED_INTERVAL_SECONDS,
)
from tests.simulation.dying import RUNNING, Doom, Killed

CHAIN_ID = 31337


@define(eq=False)
class Replica:
    """Its connections lead through proxies of its own: a killed one says nothing more, not even goodbye."""

    name: str
    environment: str
    postgres_url: str
    redis_url: str
    handler: Handler
    drain: Drain = field(factory=lambda: Drain(seconds=DRAIN_SECONDS))
    proxies: dict[str, FaultProxy] = field(factory=dict[str, FaultProxy])
    doom: Doom | None = None
    is_registered: bool = False
    was_killed: bool = False
    ended: trio.Event = field(factory=trio.Event)
    # What ended it that may end no process.
    failure: BaseException | None = None
    _scope: trio.CancelScope = field(factory=trio.CancelScope)

    @property
    def is_up(self) -> bool:
        return not self.ended.is_set() and not self.was_killed

    def kill(self) -> None:
        """As SIGKILL: what is on the wire may arrive, nothing else follows."""
        self.was_killed = True
        for proxy in self.proxies.values():
            proxy.refusing = True
            proxy.cut()
        self._scope.cancel()

    def pass_step(self, name: str) -> None:
        """The hook of `step`. Raises Killed at the step of the doom."""
        if name == "worker.after_register":
            self.is_registered = True
        if self.doom is not None and self.doom.step == name:
            self.doom.passes -= 1
            if self.doom.passes == 0:
                self.kill()
                raise Killed

    def heal(self) -> None:
        """Take every fault away that has not happened yet."""
        self.doom = None
        for proxy in self.proxies.values():
            proxy.thaw()
            proxy.swallow_nothing()

    async def run(self) -> None:
        RUNNING.set(self)
        try:
            with self._scope:
                await self._run()
        except* (Killed, StorageError, CoalescerClosed) as group:
            # A process may fail to start in an outage, and end in any way once it was killed.
            if self.is_registered and not self.was_killed:
                self.failure = group
        except* Exception as group:  # noqa: BLE001 - whatever it is, it is a find
            self.failure = group
        finally:
            self.ended.set()

    async def _run(self) -> None:
        async with (
            fault_proxy(self.postgres_url) as postgres,
            fault_proxy(self.redis_url) as redis_side,
        ):
            self.proxies.update(postgres=postgres, redis=redis_side)
            async with (
                Database.open(postgres.url_for(self.postgres_url), pool_size=3, application_name=self.name) as database,
                open_redis(redis_side.url_for(self.redis_url), command_seconds=COMMAND_SECONDS) as redis,
                trio.open_nursery() as tasks,
            ):
                coordination = coordination_on(database, redis, self.environment)
                tasks.start_soon(coordination.publish, self.drain)
                tasks.start_soon(coordination.listen)
                tasks.start_soon(coordination.recover_stalled, self.drain)
                await coordination.work({KIND: self.handler}, self.drain, self.name, "0")
                tasks.cancel_scope.cancel()


def coordination_on(database: Database, redis: RedisServer, environment: str) -> Coordination:
    return Coordination(database, queues_on(redis, environment), CHAIN_ID, environment, SETTINGS)


def queues_on(
    redis: RedisServer, environment: str, lock_seconds: float = LOCK_SECONDS
) -> Callable[[str], DeliveryQueue]:
    queue = partial(
        DeliveryQueue,
        redis,
        prefix="{tayho}",
        lock_seconds=lock_seconds,
        stalled_interval_seconds=STALLED_INTERVAL_SECONDS,
    )
    made: dict[str, DeliveryQueue] = {}

    def queue_of(role: str) -> DeliveryQueue:
        if role not in made:
            made[role] = queue(name=f"{role}-{environment}")
        return made[role]

    return queue_of
