"""`python -m tests.bench recovery`."""

from __future__ import annotations

import json

import click
import trio
from rich.console import Console
from rich.table import Table

from tests.bench.delivery.neighbours import ProcessorTimes
from tests.bench.delivery.running import OTHERS_SHARE_MAX
from tests.bench.recovery import running
from tests.bench.recovery.running import Figures, Sizes


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print the figures as one line of JSON on standard output.")
@click.option("--lineages", type=click.IntRange(min=1), default=500, show_default=True, help="Open when all die.")
@click.option("--lanes", type=click.IntRange(min=1), default=16, show_default=True)
@click.option("--replicas", type=click.IntRange(min=1), default=2, show_default=True)
@click.option("--reconcile-seconds", type=click.IntRange(min=1), default=5, show_default=True)
@click.option("--quick", is_flag=True, help="Small sizes: the figures mean nothing.")
def recovery(as_json: bool, lineages: int, lanes: int, replicas: int, reconcile_seconds: int, quick: bool) -> None:
    """From the death of all replicas, and of the node's pool, to the first send again and to the last end."""
    sizes = Sizes(24, 2, 2, 1) if quick else Sizes(lineages, lanes, replicas, reconcile_seconds)
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    before = ProcessorTimes.now()
    figures = trio.run(running.run, sizes, lambda line: console.print(line, markup=False))
    others = ProcessorTimes.now().others_share_since(before)
    console.print(_table(figures))
    if others > OTHERS_SHARE_MAX:
        console.print(f"Other programs took {others:.0%} of the machine: measure again in quiet.")
    if as_json:
        click.echo(json.dumps(figures))


def _table(figures: Figures) -> Table:
    shown = Table(title="recovery", caption="seconds from the start of the new processes")
    shown.add_column("figure")
    shown.add_column("value", justify="right")
    for name, value in figures.items():
        shown.add_row(name, f"{value:,.2f}" if isinstance(value, float) else f"{value:,}")
    return shown
