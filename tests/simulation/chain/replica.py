"""One replica of the engine inside the test's own loop: delivery, executor and reconciler, and it can be killed."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from functools import partial

import trio
from attrs import define, field

from nursery.cleanup import CleanupExpired
from nursery.coalesce import CoalescerClosed
from nursery.drain import Drain
from rpc.endpoint import Endpoint
from rpc.errors import RpcError
from rpc.pool import ReadPool
from storage.database import Database
from storage.errors import StorageError
from storage.redis_client import open_redis
from tayho.coordination.module import Coordination
from tayho.custody.module import SigningPolicy, open_custody, parse_journal_keys, parse_signer_keys
from tayho.kinds import OnChainKind
from tayho.local.development import PUBLIC_ACCOUNTS
from tayho.protocol.counter import CounterRecord, CounterRecordOnce
from tayho.transactions.module import Transactions
from tayho.voters import truth_of
from tests.services.proxy import FaultProxy, fault_proxy
from tests.simulation.chain.clockwork import (
    CHAIN_ID,
    FEE_WEI_MAX,
    LOCK_SECONDS,
    RPC_SECONDS,
    WORKER_SETTINGS,
    settings_of,
)
from tests.simulation.delivery.clockwork import COMMAND_SECONDS, DRAIN_SECONDS
from tests.simulation.delivery.replica import queues_on
from tests.simulation.dying import RUNNING, Doom, Killed

KINDS: tuple[OnChainKind, ...] = (CounterRecord(), CounterRecordOnce())
# Every replica can open what was sealed with either; which one it seals with is its own.
JOURNAL_KEYS = {"one": f"0x{'5a' * 32}", "two": f"0x{'a5' * 32}"}


@define
class Sites:
    """Where everything is. The first of the endpoints takes the sends; all of them vote."""

    postgres_url: str
    redis_url: str
    rpc_urls: Sequence[str]


@define(eq=False)
class Replica:
    """Its connections to PostgreSQL and Redis lead through proxies of its own: once killed, it says nothing more."""

    name: str
    environment: str
    sites: Sites
    journal_key_id: str
    drain: Drain = field(factory=lambda: Drain(seconds=DRAIN_SECONDS))
    proxies: dict[str, FaultProxy] = field(factory=dict[str, FaultProxy])
    doom: Doom | None = None
    transactions: Transactions | None = None
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
        except* (Killed, StorageError, RpcError, CoalescerClosed, CleanupExpired) as group:
            # A process may fail to start in an outage, and end in any way once it was killed.
            if self.is_registered and not self.was_killed:
                self.failure = group
        except* Exception as group:  # noqa: BLE001 - whatever it is, it is a find
            self.failure = group
        finally:
            self.ended.set()

    async def _run(self) -> None:
        async with fault_proxy(self.sites.postgres_url) as postgres, fault_proxy(self.sites.redis_url) as redis_side:
            self.proxies.update(postgres=postgres, redis=redis_side)
            async with (
                Database.open(
                    postgres.url_for(self.sites.postgres_url), pool_size=4, application_name=self.name
                ) as database,
                open_redis(redis_side.url_for(self.sites.redis_url), command_seconds=COMMAND_SECONDS) as redis,
            ):
                coordination = Coordination(
                    database,
                    queues_on(redis, self.environment, LOCK_SECONDS),
                    CHAIN_ID,
                    self.environment,
                    WORKER_SETTINGS,
                )
                async with self._engine(database, coordination) as transactions, trio.open_nursery() as tasks:
                    self.transactions = transactions
                    tasks.start_soon(coordination.publish, self.drain)
                    tasks.start_soon(coordination.listen)
                    tasks.start_soon(coordination.recover_stalled, self.drain)
                    tasks.start_soon(transactions.run)
                    handlers = {kind.name: partial(transactions.execute, kind) for kind in KINDS}
                    await coordination.work(handlers, self.drain, self.name, "0")
                    tasks.cancel_scope.cancel()

    @asynccontextmanager
    async def _engine(self, database: Database, coordination: Coordination) -> AsyncGenerator[Transactions]:
        """As the daemon makes it."""
        urls = self.sites.rpc_urls
        signer_keys = parse_signer_keys(json.dumps(dict(PUBLIC_ACCOUNTS)))
        journal_keys = parse_journal_keys(json.dumps(JOURNAL_KEYS), self.journal_key_id)
        async with (
            ReadPool.open(
                urls,
                chain_id=CHAIN_ID,
                cooldown_milliseconds=200,
                deadline_seconds=RPC_SECONDS,
                head_poll_seconds=1,
            ) as reads,
            Endpoint.open(urls[0], chain_id=CHAIN_ID, deadline_seconds=RPC_SECONDS) as writes,
        ):
            with open_custody(signer_keys, journal_keys, SigningPolicy(frozenset({CHAIN_ID}), FEE_WEI_MAX)) as custody:
                transactions = Transactions(
                    database,
                    coordination,
                    custody,
                    reads,
                    truth_of(reads.members),
                    writes,
                    writes.shown,
                    settings_of(self.environment, self.name),
                    await custody.signers(),
                )
                await transactions.register()
                yield transactions
