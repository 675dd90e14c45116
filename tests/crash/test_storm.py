"""A thousand jobs over sixteen lanes while replicas are killed and blocks are taken back: each takes effect once.

Small in `make test`, whole in `make soak`; `-s` shows the figures.
"""

from __future__ import annotations

import json
import os
import random
import sys
from collections.abc import Sequence
from pathlib import Path
from uuid import UUID

import pytest
import trio
from attrs import asdict, define, frozen

from rpc import methods
from storage.database import Database
from tayho.coordination.module import JobReader, enqueue_jobs
from tayho.coordination.types import NewJob
from tayho.demo.fleet import Fleet, Replica, fleet
from tests.bench.chain.world import World as ChainWorld
from tests.bench.chain.world import world as chain_world
from tests.crash.world import ENVIRONMENT, environment_of
from tests.invariants import check_always, check_at_rest, effects_of
from tests.services.chain import CHAIN_ID
from tests.simulation.chain.ground import Ground
from tests.simulation.playing import SOAK
from tests.waiting import until

pytestmark = [pytest.mark.crash, pytest.mark.services, pytest.mark.waits]

CONFIRMATIONS = 3
LOOKBACK_BLOCKS = 12
REPLICAS = 2
HOW = ("same", "turned", "late", "some", "none")
END_SECONDS = 600
STAGNANT_SECONDS = 120
SEED = "TAYHO_SOAK_SEED"


@frozen
class Size:
    jobs: int
    lanes: int
    kills: int
    reorganise_seconds: float


WHOLE = Size(jobs=1_000, lanes=16, kills=20, reorganise_seconds=15)
SMALL = Size(jobs=48, lanes=4, kills=2, reorganise_seconds=5)


@define
class Figures:
    """What came of a storm."""

    jobs: int
    effects: int = 0
    duplicates: int = 0
    lost: int = 0
    kills: int = 0
    reorganisations: int = 0
    # Receipts that had ended a lineage and were taken back.
    un_mined: int = 0
    seconds: float = 0


async def test_every_job_takes_effect_once_in_a_storm(
    database: Database, database_url: str, redis_url: str, tmp_path: Path
) -> None:
    """Goal: must-show 6: nothing lost, nothing doubled. Method: two replicas as processes on a chain with one-second
    blocks; jobs come in parts, after each a replica is killed and another started; blocks are taken back all the time,
    their transactions mined again in another order, in part, or not at all."""
    size = WHOLE if SOAK in os.environ else SMALL
    chance = random.Random(int(os.environ.get(SEED, "1")))
    async with chain_world(tmp_path, size.lanes) as chain:
        variables = environment_of(database_url, redis_url, chain.url) | {
            "SIGNER_KEYS": json.dumps([signer.key for signer in chain.signers]),
            "TX_CONFIRMATIONS": str(CONFIRMATIONS),
            "TX_REORG_LOOKBACK_BLOCKS": str(LOOKBACK_BLOCKS),
            "SIGNER_LANE_DEPTH": "16",
        }
        async with fleet(tmp_path, variables) as replicas:
            figures = await _weather(database, chain, replicas, size, chance)
    sys.stderr.write(f"\nstorm: {asdict(figures)}\n")
    assert (figures.effects, figures.duplicates, figures.lost) == (size.jobs, 0, 0)
    assert figures.kills == size.kills
    assert figures.reorganisations


async def _weather(
    database: Database, chain: ChainWorld, replicas: Fleet, size: Size, chance: random.Random
) -> Figures:
    figures = Figures(size.jobs)
    ground = Ground(chain.url, chain.node, chain.contract, floor=await chain.node.ask(methods.block_number()))
    began_at = trio.current_time()
    await replicas.start("automation", REPLICAS)
    job_ids: list[UUID] = []
    async with trio.open_nursery() as weather:
        weather.start_soon(_reorganise, ground, size, chance, figures)
        for kill in range(size.kills):
            first, last = (size.jobs * place // size.kills for place in (kill, kill + 1))
            job_ids += await _enqueue(database, chain, range(first, last))
            await trio.sleep(chance.uniform(0.5, 3))
            doomed = chance.choice(await _working(replicas))
            doomed.kill()
            figures.kills += 1
            await replicas.start("automation", 1)
            await check_always(database, chain.node, chain.contract, first_block=ground.floor)
        await _all_ended(database, replicas, job_ids)
        weather.cancel_scope.cancel()
    await _at_rest(database, ground, replicas)
    figures.seconds = round(trio.current_time() - began_at, 1)
    effects = await effects_of(chain.node, chain.contract, job_ids)
    figures.effects = sum(effects.values())
    figures.duplicates = sum(count - 1 for count in effects.values() if count > 1)
    figures.lost = sum(count == 0 for count in effects.values())
    async with database.connection() as connection:
        figures.un_mined = await connection.fetchval("SELECT count(*) FROM transactions.events WHERE kind = 'un_mined'")
        states = await connection.fetch("SELECT state, count(*) FROM coordination.jobs GROUP BY state")
    assert [(row["state"], row["count"]) for row in states] == [("completed", size.jobs)]
    return figures


async def _reorganise(ground: Ground, size: Size, chance: random.Random, figures: Figures) -> None:
    """Until cancelled. A block or two may be mined between two looks at the chain: the depth leaves room."""
    while True:
        await trio.sleep(size.reorganise_seconds)
        await ground.reorganise(chance.randint(1, LOOKBACK_BLOCKS - 4), chance.choice(HOW))
        figures.reorganisations += 1


async def _enqueue(database: Database, chain: ChainWorld, numbers: Sequence[int]) -> list[UUID]:
    request = {"contract": str(chain.contract)}
    jobs = [NewJob("counter.record", "automation", f"storm-{number}", dict(request)) for number in numbers]
    return [answer.job_id for answer in await enqueue_jobs(database, CHAIN_ID, ENVIRONMENT, jobs)]


async def _working(replicas: Fleet) -> list[Replica]:
    """The replicas that have come up: to kill one that has not begun shows nothing."""

    def started() -> list[Replica]:
        replicas.check()
        return [one for one in replicas.living if not one.was_killed and '"started"' in one.log.read_text()]

    await until(started, seconds=60, what="a replica to come up")
    return started()


async def _all_ended(database: Database, replicas: Fleet, job_ids: Sequence[UUID]) -> None:
    async def none_is_open() -> bool:
        replicas.check()
        async with database.connection() as connection:
            return not await connection.fetchval("SELECT count(*) FROM coordination.jobs WHERE ended_at IS NULL")

    assert job_ids
    await until(none_is_open, seconds=END_SECONDS, what="every job to end")


async def _at_rest(database: Database, ground: Ground, replicas: Fleet) -> None:
    """The last reorganisation may have taken ends back, and nobody has noticed yet."""
    jobs = JobReader(database, CHAIN_ID, ENVIRONMENT)
    last: AssertionError | None = None

    async def holds() -> bool:
        nonlocal last
        replicas.check()
        try:
            await check_at_rest(database, ground.node, ground.contract, confirmations=0)
        except AssertionError as error:
            last = error
            await trio.sleep(0.5)
            return False
        return bool(await jobs.live_workers())

    try:
        await until(holds, seconds=STAGNANT_SECONDS, what="everything to be at rest")
    except AssertionError as error:
        raise error from last
    await check_always(database, ground.node, ground.contract, first_block=ground.floor)
