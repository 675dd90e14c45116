"""`python -m tests.bench delivery`."""

from __future__ import annotations

import json
from collections.abc import Sequence

import click
import trio
from rich.console import Console

from nursery.asyncio_bridge import open_bridge
from tests.bench.delivery import peers, tayho_side
from tests.bench.delivery.parts import TAYHO, Figures, Part, in_turn
from tests.bench.delivery.report import document, medians, table
from tests.bench.delivery.services import Services, open_services
from tests.bench.delivery.sizes import Sizes

JOBS = 10_000
JOBS_QUICK = 200
SIDES = (TAYHO, *(peer.name for peer in peers.PEERS))


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print the figures as one line of JSON on standard output.")
@click.option("--jobs", type=click.IntRange(min=1), help=f"Jobs of each throughput part.  [default: {JOBS}]")
@click.option("--repeats", type=click.IntRange(min=1, max=9), default=1, show_default=True, help="Medians over these.")
@click.option("--quick", is_flag=True, help=f"Small sizes ({JOBS_QUICK} jobs): the figures mean nothing.")
@click.option("--only", default=",".join(SIDES), show_default=True, help="Sides to measure.")
@click.option("--profile", is_flag=True, help="Only profile one tayho worker, and show its 40 dearest functions.")
def delivery(as_json: bool, jobs: int | None, repeats: int, quick: bool, only: str, profile: bool) -> None:
    """Durable jobs a second, and what each costs, beside other queues on the same servers."""
    sizes = Sizes.quick(jobs or JOBS_QUICK) if quick else Sizes.of(jobs or JOBS)
    console = Console(stderr=True)
    if profile:
        console.print(trio.run(_profile, sizes.jobs), highlight=False, markup=False, soft_wrap=True)
        return
    figures = medians(trio.run(_measure, sizes, _sides(only), repeats, console))
    console.print(table(figures))
    if as_json:
        click.echo(json.dumps(document(figures)))


def _sides(only: str) -> Sequence[str]:
    sides = [name.strip() for name in only.split(",") if name.strip()]
    unknown = sorted(set(sides) - set(SIDES))
    if unknown:
        raise click.BadParameter(f"no such side: {', '.join(unknown)}", param_hint="--only")
    if absent := peers.missing(sides):
        raise click.UsageError("; ".join(absent))
    return sides


async def _measure(sizes: Sizes, sides: Sequence[str], repeats: int, console: Console) -> list[Figures]:
    """The figures of each repeat."""
    ours = tayho_side.parts() if TAYHO in sides else []
    found: list[Figures] = []
    async with open_bridge(), open_services() as services:
        for repeat in range(repeats):
            figures: dict[tuple[str, ...], float] = {}
            for part in in_turn(ours, peers.parts(sides), repeat):
                figures |= await _measured(part, services, sizes, console)
            found.append(figures)
    return found


async def _measured(part: Part, services: Services, sizes: Sizes, console: Console) -> Figures:
    figures = await part.measure(services, sizes)
    values = ", ".join(f"{path[-1]} {value:,.3f}" for path, value in figures.items())
    console.print(f"{part.side}, {part.title}: {values}", highlight=False, soft_wrap=True)
    return figures


async def _profile(jobs: int) -> str:
    async with open_bridge(), open_services() as services:
        return await tayho_side.profile(services, jobs)
