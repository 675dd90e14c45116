"""`python -m tests.bench engine`."""

from __future__ import annotations

import json

import click
import trio
from rich.console import Console
from rich.table import Table

from tests.bench.delivery.neighbours import ProcessorTimes
from tests.bench.delivery.running import OTHERS_SHARE_MAX
from tests.bench.engine import running
from tests.bench.engine.running import Figures, Sizes


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print the figures as one line of JSON on standard output.")
@click.option("--quick", is_flag=True, help="Small sizes: the figures mean nothing.")
def engine(as_json: bool, quick: bool) -> None:
    """Intents accepted and statuses told by one engine process, beside a bare route; and what a flood costs."""
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    before = ProcessorTimes.now()
    figures = trio.run(running.run, Sizes.quick() if quick else Sizes(), console.print)
    others = ProcessorTimes.now().others_share_since(before)
    console.print(_table(figures))
    if others > OTHERS_SHARE_MAX:
        console.print(f"Other programs took {others:.0%} of the machine: measure again in quiet.")
    if as_json:
        click.echo(json.dumps({name: round(value, 3) for name, value in figures.items()}))


def _table(figures: Figures) -> Table:
    shown = Table("what", "figure", title="engine")
    shown.columns[1].justify = "right"
    for name, value in figures.items():
        shown.add_row(name, f"{value:,.0f}" if value >= 100 else f"{value:,.3g}")
    return shown
