"""The demo from start to report."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

import trio
from attrs import frozen

from nursery.asyncio_bridge import open_bridge
from nursery.groups import unwrapped
from rpc.endpoint import Endpoint
from storage.database import Database
from storage.migrations import migrate
from tayho.client import IntentDomain, Taken
from tayho.coordination.module import JobReader
from tayho.demo.counting import ChainTally
from tayho.demo.deployment import CHAIN_ID, ENVIRONMENT, Deployment, deployment
from tayho.demo.figures import figures_of
from tayho.demo.fleet import Fleet, fleet
from tayho.demo.killing import kill_in_mid_batch
from tayho.demo.markets import TRADED
from tayho.demo.types import DemoPlan, DemoReport, Wishes
from tayho.demo.wishing import Crowd, crowd, intents_of, wishes_of
from tayho.demo.world import USERS, market_id, reference_world
from tayho.kernel.transitions import JOB
from tayho.local.anvil import Chain
from tayho.local.stack import local_stack, throw_away_folder

BLOCK_SECONDS = 1
CHILD_KIND = "intents.child"
LOOK_SECONDS = 0.5
START_SECONDS = 120
# The node's first accounts are the public ones, and the deployer's.
ACCOUNTS = USERS + 4


class DemoStuck(Exception):
    """Not everything was done in time."""


@frozen
class Progress:
    """One look at the running demo, for the live table."""

    seconds: float
    # Where the intents are, what each role has on the chain, and what it must have at least.
    intents: Mapping[str, int]
    done: Mapping[str, int]
    wanted: Mapping[str, int]
    batches: int
    living: Mapping[str, int]
    killed: tuple[str, ...]


async def run_demo(plan: DemoPlan, show: Callable[[Progress], None]) -> DemoReport:
    """Bring everything up, let users wish and roles work, kill a relayer if asked, count on the chain.

    Raises ToolMissing, LocalProcessFailed, DeploymentFailed, ReplicaDied, EngineError, DemoStuck.
    """
    chain = Chain(chain_id=CHAIN_ID, block_seconds=BLOCK_SECONDS, accounts=ACCOUNTS)
    async with open_bridge(), local_stack(chain=chain) as stack:
        await migrate(stack.database_url)
        with throw_away_folder() as folder:
            async with (
                Database.open(stack.database_url, pool_size=4, application_name="tayho demo") as database,
                Endpoint.open(str(stack.rpc_url), chain_id=CHAIN_ID) as node,
                reference_world(node, market_id(TRADED)) as world,
            ):
                told = deployment(stack, world, folder)
                async with fleet(folder, told.common) as replicas:
                    urls = await told.start(replicas, plan)
                    async with crowd(urls, IntentDomain(CHAIN_ID, world.protocol)) as users:
                        jobs = JobReader(database, CHAIN_ID, ENVIRONMENT)
                        tally = ChainTally(world.protocol, world.executor)
                        return await _Demo(plan, told, jobs, node, replicas, users, tally, show).run()


@frozen
class _Demo:
    """What a running demo acts on."""

    plan: DemoPlan
    told: Deployment
    jobs: JobReader
    node: Endpoint
    replicas: Fleet
    users: Crowd
    tally: ChainTally
    show: Callable[[Progress], None]

    async def run(self) -> DemoReport:
        with trio.fail_after(START_SECONDS):
            await self._all_alive()
        began_at = time.monotonic()
        wishes = wishes_of(self.plan.intents)
        taken: list[Taken] = []
        with unwrapped():
            async with trio.open_nursery() as tasks:
                if self.plan.kill:
                    tasks.start_soon(kill_in_mid_batch, self.jobs, self.replicas)
                tasks.start_soon(self._submit, wishes, taken)
                await self._watch(wishes, taken, began_at)
                tasks.cancel_scope.cancel()
        seconds = time.monotonic() - began_at
        told = await self.users.ask_all(taken)
        dead = sum(states.get("dead", 0) for states in (await self.jobs.count_by_kind()).values())
        await self.tally.look(self.node)
        return DemoReport(
            wishes=wishes,
            wanted=_wanted(wishes),
            figures=figures_of(told, self.tally, dead=dead),
            killed=sum(replica.was_killed for replica in self.replicas.replicas),
            seconds=round(seconds, 1),
            exit_codes=await self.replicas.stop(),
        )

    async def _all_alive(self) -> None:
        wanted = sum(self.told.processes(self.plan).values())
        while len(await self.jobs.live_workers()) < wanted:
            self.replicas.check()
            await trio.sleep(LOOK_SECONDS)

    async def _submit(self, wishes: Wishes, taken: list[Taken]) -> None:
        intents = intents_of(wishes, self.told.world.users, market_id(TRADED))
        await self.users.submit_all(intents, taken.append)

    async def _watch(self, wishes: Wishes, taken: list[Taken], began_at: float) -> None:
        """Look until every intent has ended, every role has done what it must, and who must die is dead."""
        wanted = _wanted(wishes)
        while True:
            self.replicas.check()
            await self.tally.look(self.node)
            kinds = await self.jobs.count_by_kind()
            intents = kinds.get(CHILD_KIND, {})
            progress = self._progress(intents, wanted, time.monotonic() - began_at)
            self.show(progress)
            has_ended = sum(intents.get(state, 0) for state in JOB.terminal) >= self.plan.intents == len(taken)
            if has_ended and _is_done(progress) and bool(progress.killed) == self.plan.kill:
                return
            if progress.seconds > self.plan.deadline_seconds:
                raise DemoStuck(
                    f"after {progress.seconds:.0f} s the intents stand at {intents}, the roles at {progress.done} of "
                    f"{wanted}, and {', '.join(progress.killed) or 'nobody'} was killed; all jobs: {kinds}"
                )
            await trio.sleep(LOOK_SECONDS)

    def _progress(self, intents: Mapping[str, int], wanted: Mapping[str, int], seconds: float) -> Progress:
        living = [replica.role for replica in self.replicas.living]
        return Progress(
            seconds=seconds,
            intents=intents,
            done=self.tally.roles,
            wanted=wanted,
            batches=len(self.tally.children_per_batch),
            living={role: living.count(role) for role in self.told.processes(self.plan)},
            killed=tuple(replica.instance_id for replica in self.replicas.replicas if replica.was_killed),
        )


def _wanted(wishes: Wishes) -> dict[str, int]:
    """The least that each role must have done in the end."""
    return {
        "relayer": wishes.executed,
        "automation": wishes.orders_due,
        "payouts": wishes.claims,
        "funding-oracle": 1,
        "depth-attester": 1,
        "resolution-attester": 1,
        "guardian": 1,
        "revenue": 1,
    }


def _is_done(progress: Progress) -> bool:
    return all(progress.done.get(role, 0) >= count for role, count in progress.wanted.items())
