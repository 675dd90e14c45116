"""The three states of one database server, one after the other: empty, grown, and with an old snapshot held."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from statistics import quantiles
from typing import TypeAlias

import trio
from attrs import frozen

from nursery.asyncio_bridge import open_bridge
from storage.database import Database
from tests.bench.delivery.services import TEMPLATE, Services, control, open_services
from tests.bench.scale.load import CHAIN_ID, ENVIRONMENT, STEPS, Load
from tests.services.ballast import held_snapshot, load_ended

# Of a paced load: BATCH jobs each period.
PERIOD_SECONDS = 0.2
# Figures of the held snapshot are told so many times before it is measured.
TENTHS = 10
_BLOAT = """
SELECT
    pg_relation_size('coordination.outbox') AS outbox_bytes,
    pg_relation_size('coordination.outbox_due') AS outbox_due_bytes,
    (SELECT count(*) FROM coordination.jobs WHERE environment = $1) AS jobs
"""

# State, then figure, then value in milliseconds or as named.
Figures: TypeAlias = Mapping[str, Mapping[str, float]]


@frozen
class Sizes:
    """How much of everything."""

    rows: int
    rounds: int
    # How long the load goes on beside the held snapshot before it is measured.
    snapshot_minutes: float


async def run(sizes: Sizes, told: Callable[[str], None]) -> Figures:
    """The figures of the three states; ratios are to the empty one of this very run."""
    async with open_bridge(), open_services() as services:
        figures = {"empty": await _empty(services, sizes)}
        told(f"empty: {_text(figures['empty'])}")
        if sizes.rows:
            figures["grown"] = await _grown(services, sizes, told)
            told(f"grown: {_text(figures['grown'])}")
        if sizes.snapshot_minutes:
            figures["held"] = await _held(services, sizes, told)
            told(f"held: {_text(figures['held'])}")
    return {state: _with_ratios(of, figures["empty"]) if state != "empty" else of for state, of in figures.items()}


async def _empty(services: Services, sizes: Sizes) -> Mapping[str, float]:
    async with services.database(TEMPLATE) as url, _loaded(url) as load:
        await _measure(load, sizes)
        return _figures(load)


async def _grown(services: Services, sizes: Sizes, told: Callable[[str], None]) -> Mapping[str, float]:
    async with services.database(TEMPLATE) as url:
        began = trio.current_time()
        await load_ended(url, CHAIN_ID, ENVIRONMENT, sizes.rows)
        await services.settle(url)
        seconds = trio.current_time() - began
        async with control(url) as connection:
            size = await connection.fetchval("SELECT pg_database_size(current_database())")
        told(f"{sizes.rows:,} ended jobs loaded in {seconds:.0f} s, {size / 2**30:.1f} GiB")
        async with _loaded(url) as load:
            await _measure(load, sizes)
            return {**_figures(load), "loading_seconds": seconds, "database_bytes": size}


async def _held(services: Services, sizes: Sizes, told: Callable[[str], None]) -> Mapping[str, float]:
    """The load goes on beside a transaction that holds its first snapshot; the end of that time is measured."""
    async with services.database(TEMPLATE) as url, _loaded(url) as load:
        await load.run(rounds=sizes.rounds // 4)
        async with held_snapshot(url):
            for _ in range(TENTHS):
                load.forget()
                await load.run(seconds=sizes.snapshot_minutes * 60 / TENTHS, period_seconds=PERIOD_SECONDS)
                told(f"  while it is held: {_text(_figures(load))}")
            load.forget()
            await load.run(rounds=sizes.rounds)
        async with control(url) as connection:
            row = await connection.fetchrow(_BLOAT, ENVIRONMENT)
        assert row is not None
        return {**_figures(load), **row}


async def _measure(load: Load, sizes: Sizes) -> None:
    await load.run(rounds=sizes.rounds // 4)
    load.forget()
    await load.run(rounds=sizes.rounds)


@asynccontextmanager
async def _loaded(url: str) -> AsyncGenerator[Load]:
    async with Database.open(url, pool_size=4, application_name="bench") as database:
        yield await Load.of(database)


def _figures(load: Load) -> dict[str, float]:
    """Milliseconds: the median and the 99th of each step, and the dearest look behind."""
    figures: dict[str, float] = {}
    for name in STEPS:
        seconds = load.seconds[name]
        if len(seconds) >= 2:
            cuts = quantiles(seconds, n=100, method="inclusive")
            figures[f"{name}_p50"], figures[f"{name}_p99"] = cuts[49] * 1_000, cuts[98] * 1_000
    figures["look_behind_max"] = max(load.looks_behind, default=0) * 1_000
    return figures


def _with_ratios(figures: Mapping[str, float], empty: Mapping[str, float]) -> Mapping[str, float]:
    ratios = {f"{name}_ratio": value / empty[name] for name, value in figures.items() if empty.get(name)}
    return {**figures, **ratios}


def _text(figures: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {value:,.1f}" for name, value in figures.items())
