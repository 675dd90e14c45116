"""`python -m tests.bench delivery`."""

from __future__ import annotations

import json
from collections.abc import Sequence

import click
import trio
from rich.console import Console

from tests.bench.delivery import peers, running
from tests.bench.delivery.parts import TAYHO
from tests.bench.delivery.report import document, medians, table
from tests.bench.delivery.running import OTHERS_SHARE_MAX, Taken
from tests.bench.delivery.sizes import Sizes

JOBS = 10_000
JOBS_QUICK = 200
SIDES = (TAYHO, *(peer.name for peer in peers.PEERS))


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print the figures as one line of JSON on standard output.")
@click.option("--jobs", type=click.IntRange(min=1), help=f"Jobs of each throughput part.  [default: {JOBS}]")
@click.option("--repeats", type=click.IntRange(1, 9), default=1, show_default=True, help="Medians over these.")
@click.option(
    "--tries",
    type=click.IntRange(1, 9),
    default=1,
    show_default=True,
    help=f"Of a part during which other programs took over {OTHERS_SHARE_MAX:.0%} of the machine.",
)
@click.option("--quick", is_flag=True, help=f"Small sizes ({JOBS_QUICK} jobs): the figures mean nothing.")
@click.option("--only", default=",".join(SIDES), show_default=True, help="Sides to measure.")
@click.option("--profile", is_flag=True, help="Only profile one tayho worker, and show its 40 dearest functions.")
def delivery(as_json: bool, jobs: int | None, repeats: int, tries: int, quick: bool, only: str, profile: bool) -> None:
    """Durable jobs a second, and what each costs, beside other queues on the same servers."""
    sizes = Sizes.quick(jobs or JOBS_QUICK) if quick else Sizes.of(jobs or JOBS)
    sides = _sides(only)
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    if profile:
        console.print(trio.run(running.profile, sizes.jobs), markup=False)
        return
    taken = trio.run(running.run, sizes, sides, repeats, tries, lambda one: console.print(str(one), markup=False))
    figures = medians([{path: value for one in repeat for path, value in one.figures.items()} for repeat in taken])
    console.print(table(figures))
    _warn(console, [one for repeat in taken for one in repeat])
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


def _warn(console: Console, taken: Sequence[Taken]) -> None:
    disturbed = [one for one in taken if one.is_disturbed]
    if disturbed:
        worst = max(one.others_share for one in disturbed)
        console.print(
            f"Other programs disturbed {len(disturbed)} of {len(taken)} parts, and took up to {worst:.0%} of the "
            "machine: measure again in quiet."
        )
