"""Runs one schedule on a chain of its own: every operation, then the faults end, then everything must come to rest."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any
from uuid import UUID

import trio
from attrs import define, field

from nursery.asyncio_bridge import open_bridge
from storage.database import Database
from storage.redis_client import RedisServer, open_redis
from tayho.coordination.module import Coordination, enqueue_jobs
from tayho.coordination.types import NewJob
from tayho.kernel.address import Address
from tayho.kernel.steps import on_step
from tayho.local.development import DEPLOYER
from tayho.local.folder import throw_away_folder
from tayho.protocol import abi, artifacts
from tayho.transactions.errors import ActRefused
from tayho.transactions.replacing.acts import LineageControl
from tayho.transactions.replacing.types import Act
from tayho.transactions.world_acts import WorldActs
from tayho.voters import truth_of
from tests.invariants import check_always
from tests.rpc.front.front import Front, Node, Nodes, Rule, fronts
from tests.services.launch import memory_folder
from tests.simulation.chain.clockwork import CHAIN_ID, GWEI, LOOKBACK_BLOCKS, ROLE, WORKER_SETTINGS, settings_of
from tests.simulation.chain.faults import LIES, lose_sends
from tests.simulation.chain.ground import SIGNERS, Ground, ground
from tests.simulation.chain.operations import ENDPOINTS, REPLICAS_MAX, Schedule
from tests.simulation.chain.replica import Replica, Sites
from tests.simulation.delivery.replica import queues_on
from tests.simulation.dying import Doom, kill_at_step
from tests.simulation.insisting import insist

ENVIRONMENT = "sim"


@define
class Servers:
    """What all schedules of a process share. Each has a database and a chain of its own, and empties Redis."""

    postgres_url: str
    redis_url: str


@define
class Wanted:
    """One job that was accepted."""

    job_id: UUID
    # The event that it shares with others; None for one of its own.
    event: int | None = None
    was_cancelled: bool = False


@define(eq=False)
class Driver:
    """The operations, one method each."""

    ground: Ground
    sites: Sites
    tasks: trio.Nursery
    # Straight to the servers.
    database: Database
    redis: RedisServer
    endpoints: Sequence[Front]
    # What makes the shared events: random, so that no schedule knows another's.
    events: Sequence[bytes]
    wanted: list[Wanted] = field(factory=list[Wanted])
    replicas: list[Replica] = field(factory=list[Replica])
    done: Counter[str] = field(factory=Counter)
    # Whether somebody else used a key of ours: then a job may lose its nonce, and with it its end.
    has_foreign: bool = False
    has_false_reverts: bool = False
    # Whether blocks were taken back: then a call may meet another state than the one that its gas was estimated in.
    has_other_past: bool = False
    _lying: tuple[Front, Rule] | None = None
    _checked_head: int = 0

    async def run(self, schedule: Schedule) -> None:
        for name, *arguments in schedule:
            await getattr(self, f"do_{name}")(*arguments)
            self.done[str(name)] += 1
            await self.check()

    async def check(self, *, whole: bool = False) -> None:
        """What holds at every moment. Blocks that cannot have changed since the last check are read only if `whole`."""
        ground = self.ground
        head = await ground.head()
        first = ground.floor if whole else max(ground.floor, self._checked_head - LOOKBACK_BLOCKS)
        await insist(
            partial(
                check_always, self.database, ground.node, ground.contract, ground.foreign, first_block=min(first, head)
            )
        )
        self._checked_head = max(head, self._checked_head)

    # Work

    async def do_enqueue(self, count: int) -> None:
        await self._enqueue(count, "counter.record", None)

    async def do_enqueue_once(self, event: int) -> None:
        await self._enqueue(1, "counter.record_once", event)

    async def _enqueue(self, count: int, kind: str, event: int | None) -> None:
        request = {"contract": str(self.ground.contract)}
        if event is not None:
            request["job"] = f"0x{self.events[event].hex()}"
        first = len(self.wanted)
        jobs = [NewJob(kind, ROLE, f"key-{first + number}", dict(request)) for number in range(count)]
        answers = await insist(partial(enqueue_jobs, self.database, CHAIN_ID, ENVIRONMENT, jobs))
        self.wanted += [Wanted(answer.job_id, event) for answer in answers]

    async def do_record_elsewhere(self, event: int) -> None:
        """Somebody else makes a shared event: whoever still wants it is not actionable any more."""
        data = abi.encode_call(artifacts.load("Counter"), "record", [self.events[event]])
        call = {"from": str(DEPLOYER), "to": str(self.ground.contract), "data": f"0x{data.hex()}", "gas": hex(200_000)}
        await self.ground.tell("eth_sendTransaction", call)

    async def do_wait(self, milliseconds: int) -> None:
        await trio.sleep(milliseconds / 1_000)

    # Blocks

    async def do_mine(self, blocks: int) -> None:
        await self.ground.mine(blocks)

    async def do_hold_mining(self) -> None:
        self.ground.hold_mining()
        await trio.lowlevel.checkpoint()

    async def do_resume_mining(self) -> None:
        self.ground.resume_mining()
        await trio.lowlevel.checkpoint()

    async def do_base_fee(self, gwei: int) -> None:
        await self.ground.set_base_fee(gwei * GWEI)

    # The chain

    async def do_drop(self, number: int) -> None:
        await self.ground.drop(number)

    async def do_drop_all(self) -> None:
        await self.ground.drop_all()

    async def do_reorganise(self, depth: int, how: str) -> None:
        self.has_other_past = True
        await self.ground.reorganise(depth, how)

    async def do_roll_back(self, depth: int) -> None:
        self.has_other_past = True
        await self.ground.roll_back(depth)

    async def do_foreign(self, signer: int, block: str) -> None:
        self.has_foreign = True
        await self.ground.send_foreign(_signer(signer), block=block)

    async def do_drain_balance(self, signer: int, wei: int) -> None:
        await self.ground.drain(_signer(signer), wei)

    async def do_refill(self, signer: int) -> None:
        await self.ground.refill(_signer(signer))

    # Nodes

    async def do_lose_sends(self, fault: str, times: int) -> None:
        lose_sends(self.endpoints[0], fault, times)
        await trio.lowlevel.checkpoint()

    async def do_lie(self, number: int, lie: str) -> None:
        """One of three lies. Never two: what a majority says is the truth, by definition."""
        self._end_lie()
        front = self.endpoints[number]
        LIES[lie](front)
        self._lying = (front, front.rules[-1])
        self.has_false_reverts |= lie == "reverts"
        await trio.lowlevel.checkpoint()

    async def do_shut(self, number: int) -> None:
        self.endpoints[number].door.shut()
        await trio.lowlevel.checkpoint()

    async def do_be_honest(self) -> None:
        self._end_lie()
        for front in self.endpoints:
            front.door.open()
        await trio.lowlevel.checkpoint()

    def _end_lie(self) -> None:
        if self._lying is not None:
            front, rule = self._lying
            front.rules.remove(rule)
            self._lying = None

    # Replicas

    async def do_start(self, key_id: str) -> None:
        if sum(replica.is_up for replica in self.replicas) < REPLICAS_MAX:
            self.start_replica(key_id)
        await trio.lowlevel.checkpoint()

    def start_replica(self, key_id: str = "one") -> Replica:
        replica = Replica(f"{ENVIRONMENT}-{len(self.replicas)}", ENVIRONMENT, self.sites, key_id)
        self.replicas.append(replica)
        self.tasks.start_soon(replica.run, name=replica.name)
        return replica

    async def do_crash(self, number: int) -> None:
        for replica in self.up(number):
            replica.kill()
        await trio.lowlevel.checkpoint()

    async def do_crash_at(self, number: int, step: str, passes: int) -> None:
        for replica in self.up(number):
            replica.doom = Doom(step, passes)
        await trio.lowlevel.checkpoint()

    async def do_drain(self, number: int) -> None:
        for replica in self.up(number):
            replica.drain.request("a rolling deployment")
        await trio.lowlevel.checkpoint()

    async def do_cut(self, number: int, side: str) -> None:
        for replica in self.up(number):
            if side in replica.proxies:
                replica.proxies[side].cut()
        await trio.lowlevel.checkpoint()

    async def do_lose_commit(self, number: int, is_request: bool) -> None:
        """The replica asks to commit, and does not hear whether it was."""
        for replica in self.up(number):
            if proxy := replica.proxies.get("postgres"):
                (proxy.swallow_request if is_request else proxy.swallow_answer_to)(b"COMMIT")
        await trio.lowlevel.checkpoint()

    async def do_flushall(self) -> None:
        await self.redis.ask_one(["FLUSHALL"])

    def up(self, number: int) -> list[Replica]:
        """The replica of this number among those that are up, if there is any."""
        living = [replica for replica in self.replicas if replica.is_up]
        return [living[number % len(living)]] if living else []

    # People

    async def do_cancel(self, number: int) -> None:
        await self._wish("cancel", number)

    async def do_bump(self, number: int) -> None:
        await self._wish("bump", number)

    async def _wish(self, act: Act, number: int) -> None:
        """An operator asks for it, if there is a lineage to ask it of."""
        if not self.wanted:
            return
        one = self.wanted[number % len(self.wanted)]
        control = LineageControl(self.database, CHAIN_ID, ENVIRONMENT)
        with suppress(ActRefused):
            await insist(partial(control.request, act, one.job_id, "ada", "a schedule"))
            one.was_cancelled |= act == "cancel"

    async def resolve_halts(self) -> None:
        """An operator takes the chain as it is. Only others' transactions explain that; anything else is a find."""
        halts = await self.rows("SELECT kind, evidence FROM transactions.halts WHERE resolved_at IS NULL")
        for halt in halts:
            assert halt["kind"] == "chain_ahead", f"a halt that nothing explains: {dict(halt)}"
            assert self.has_foreign, f"a halt that nothing explains: {dict(halt)}"
        if halts:
            settings = settings_of(ENVIRONMENT, "an operator")
            coordination = Coordination(
                self.database, queues_on(self.redis, ENVIRONMENT), CHAIN_ID, ENVIRONMENT, WORKER_SETTINGS
            )
            acts = WorldActs(self.database, coordination, truth_of([self.ground.node]), settings)
            await insist(partial(acts.adopt, "ada"))
            self.done["adopted"] += 1

    # The end of the faults

    async def heal(self) -> None:
        """No fault any more: honest nodes, a cheap market, rich accounts, blocks."""
        self._end_lie()
        for front in self.endpoints:
            front.disarm()
        for replica in self.replicas:
            replica.heal()
        await self.ground.calm()

    # Means

    async def rows(self, sql: str, *arguments: object) -> Sequence[Any]:
        async def ask() -> Sequence[Any]:
            async with self.database.connection() as connection:
                return await connection.fetch(sql, *arguments)

        return await insist(ask)


def _signer(number: int) -> Address:
    return SIGNERS[number % len(SIGNERS)]


@asynccontextmanager
async def driver(servers: Servers) -> AsyncGenerator[Driver]:
    """A fresh database, an empty Redis and a new chain. Needs the waits of `clockwork` shortened."""
    on_step(kill_at_step)
    try:
        with throw_away_folder(memory_folder()) as folder:
            async with open_bridge(), _world(servers, folder) as one:
                yield one
    finally:
        on_step(None)


@asynccontextmanager
async def _world(servers: Servers, folder: Path) -> AsyncGenerator[Driver]:
    async with (
        Database.open(servers.postgres_url, pool_size=3, application_name="looking") as database,
        open_redis(servers.redis_url) as redis,
        ground(folder) as chain,
        Node.at(chain.url) as node,
        fronts(Nodes(node, node), ENDPOINTS) as endpoints,
        trio.open_nursery() as tasks,
    ):
        await redis.ask_one(["FLUSHALL"])
        tasks.start_soon(chain.keep_mining)
        sites = Sites(servers.postgres_url, servers.redis_url, [front.url for front in endpoints])
        yield Driver(chain, sites, tasks, database, redis, endpoints, [os.urandom(32) for _ in range(3)])
        tasks.cancel_scope.cancel()
