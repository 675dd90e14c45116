"""One engine process on its own servers and a real contract, beside a bare route of the same framework."""

from __future__ import annotations

import json
import re
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import median
from typing import TypeAlias

from attrs import frozen

from nursery.asyncio_bridge import open_bridge
from storage.connection import Connection
from storage.database import Database
from storage.migrations import migrate
from storage.redis_client import open_redis
from tayho.coordination.module import Coordination
from tayho.coordination.types import WorkerSettings
from tayho.custody.module import recovered
from tayho.demo.fleet import fleet
from tayho.demo.running import run_demo
from tayho.demo.types import DemoPlan
from tayho.intents.module import Intents
from tayho.intents.types import SignedIntent
from tayho.local.stack import LocalStack, local_stack
from tayho.protocol.intents import arguments_of
from tests.api.engine.replicas import IDENTITY_KEY, body_of, replica
from tests.bench.delivery.child import child
from tests.bench.engine.load import Answered, request, send
from tests.protocol.reference import CHAIN, Reference, reference_on_anvil
from tests.waiting import until

ENVIRONMENT = "bench"
UNLIMITED = "1000000"
WARMING = 100
BATCHED = 32
BATCH_GAS = 14_000_000

Figures: TypeAlias = Mapping[str, float]


class Refused(Exception):
    """Something was answered otherwise than it must be: the figures would mean nothing."""


@frozen
class Sizes:
    """How many requests of each kind a round sends, how many rounds, and how many intents go the whole way."""

    requests: int = 2_000
    rounds: int = 3
    intents: int = 500

    @classmethod
    def quick(cls) -> Sizes:
        """What only shows that everything works."""
        return cls(requests=60, rounds=1, intents=0)


async def run(sizes: Sizes, told: Callable[[str], None]) -> Figures:
    """Both sides in turn, medians over the rounds; then what a flood costs."""
    with tempfile.TemporaryDirectory(prefix="tayho-bench-") as folder:
        async with open_bridge(), local_stack() as stack, reference_on_anvil(Path(folder)) as reference:
            await migrate(stack.database_url)
            rounds = await _throughput(sizes, stack, reference, Path(folder), told)
            figures = {name: median(one[name] for one in rounds) for name in rounds[0]}
            figures |= await _flood(sizes, stack, reference)
            figures |= await _gas(reference)
    return figures | (await _finals(sizes.intents) if sizes.intents else {})


async def _throughput(
    sizes: Sizes, stack: LocalStack, reference: Reference, folder: Path, told: Callable[[str], None]
) -> list[Figures]:
    command = [sys.executable, "-m", "tests.bench.engine.bare_process"]
    async with child("bare", command, {}, folder) as bare, fleet(folder, _environment(stack, reference)) as replicas:
        bare_at = json.loads(await bare.hear(30))
        (engine,) = await replicas.start("engine", 1)

        def listening() -> str | None:
            engine.check()
            found = re.search(r'"engine_listening".*?"bind": "([^"]+)"', engine.log.read_text())
            return found and found[1]

        await until(listening, seconds=30, what="the engine to listen")
        engine_at = listening() or ""
        await _round(WARMING, bare_at, engine_at, reference)
        rounds: list[Figures] = []
        for _ in range(sizes.rounds):
            rounds.append(await _round(sizes.requests, bare_at, engine_at, reference))
            latest = rounds[-1]
            told(f"accepted {latest['accepted_per_second']:,.0f}/s, told {latest['statuses_per_second']:,.0f}/s")
        return rounds


async def _round(number: int, bare_at: str, engine_at: str, reference: Reference) -> Figures:
    bodies = [json.dumps(_order(reference)).encode() for _ in range(number)]
    posts = [request("POST", "/v1/intents", body) for body in bodies]
    bare_posts = _required(await send(bare_at, posts), 202)
    accepted = _required(await send(engine_at, posts), 202)
    ids = [json.loads(body)["id"] for body in accepted.bodies]
    gets = [request("GET", f"/v1/intents/{one}") for one in ids]
    bare_gets = _required(await send(bare_at, gets), 200)
    statuses = _required(await send(engine_at, gets), 200)
    again = _required(await send(engine_at, posts), 200)
    return {
        "accepted_per_second": accepted.per_second,
        "accepted_to_bare": accepted.per_second / bare_posts.per_second,
        "known_per_second": again.per_second,
        "statuses_per_second": statuses.per_second,
        "statuses_to_bare": statuses.per_second / bare_gets.per_second,
        "bare_posts_per_second": bare_posts.per_second,
        "bare_gets_per_second": bare_gets.per_second,
    }


async def _gas(reference: Reference) -> Figures:
    """What an order costs on the chain, sent alone and as one of BATCHED."""
    single = reference.signed(reference.order())
    alone = await reference.do("execute", arguments_of(single.intent), single.signature)
    children = [reference.signed(reference.order()) for _ in range(BATCHED)]
    batched, results = await reference.execute(children, gas=BATCH_GAS)
    if not (alone.succeeded and batched.succeeded and all(one.success for one in results)):
        raise Refused("an order was refused by the chain")
    return {"gas_alone": alone.gas_used, f"gas_one_of_{BATCHED}": batched.gas_used // BATCHED}


async def _finals(intents: int) -> Figures:
    """From the first submission to the last end, by the whole protocol of the demo: every role, one process each."""
    report = await run_demo(DemoPlan(intents, replicas=1, kill=False), lambda _: None)
    if not report.is_right:
        raise Refused("the demo miscounted")
    return {
        "finals_per_second": report.figures.completed / report.seconds,
        "accept_to_final_ms_p50": float(report.figures.accept_to_final_ms_p50),
        "accept_to_final_ms_p99": float(report.figures.accept_to_final_ms_p99),
    }


async def _flood(sizes: Sizes, stack: LocalStack, reference: Reference) -> Figures:
    """An engine in this process, whose client is over his budget: what that costs PostgreSQL."""
    statements: list[str] = []
    ask = Connection._run

    async def counted(self: Connection, run: object, sql: str, args: tuple[object, ...]) -> object:
        statements.append(sql)
        return await ask(self, run, sql, args)

    async with (
        Database.open(stack.database_url, pool_size=2, application_name="bench") as database,
        open_redis(stack.redis_url) as redis,
    ):
        worker = WorkerSettings((), 1, 30, 60, 8, 250)
        coordination = Coordination(database, lambda _: None, CHAIN.chain_id, ENVIRONMENT, worker)

        async def permit(_: SignedIntent) -> None:
            raise Refused("the chain was asked")

        intents = Intents(database, coordination, reference.domain, ENVIRONMENT, permit, recovered)
        async with replica(intents, reference.domain, redis, statuses=1) as engine:
            path = request("GET", "/v1/intents/01a23247-c874-7487-85fe-1e0313deeb0a")
            await send(str(engine.bind), [path])
            Connection._run = counted  # type: ignore[method-assign]
            try:
                limited = _required(await send(str(engine.bind), [path] * sizes.requests), 429)
            finally:
                Connection._run = ask  # type: ignore[method-assign]
    return {"limited_per_second": limited.per_second, "limited_statements": float(len(statements))}


def _order(reference: Reference) -> dict[str, object]:
    signed = reference.signed(reference.order())
    return body_of(SignedIntent(signed.intent, signed.signature))


def _required(answered: Answered, status: int) -> Answered:
    others = [one for one in answered.statuses if one != status]
    if others:
        raise Refused(f"{len(others)} of {len(answered.statuses)} answers are no {status}, but {sorted(set(others))}")
    return answered


def _environment(stack: LocalStack, reference: Reference) -> dict[str, str]:
    return {
        "DATABASE_URL": stack.database_url,
        "REDIS_URL": stack.redis_url,
        "RPC_URL": reference.endpoint.shown,
        "CHAIN_ID": str(CHAIN.chain_id),
        "ENVIRONMENT": ENVIRONMENT,
        "PROTOCOL_ADDRESS": str(reference.protocol),
        "ENGINE_IDENTITY_KEY": IDENTITY_KEY,
        "ENGINE_SUBMISSIONS_PER_MINUTE": UNLIMITED,
        "ENGINE_STATUSES_PER_MINUTE": UNLIMITED,
        "ENGINE_BIND": "127.0.0.1:0",
        "HTTP_BIND": "127.0.0.1:0",
        "LOG_FORMAT": "json",
    }
