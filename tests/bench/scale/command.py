"""`python -m tests.bench scale`."""

from __future__ import annotations

import json
from collections.abc import Mapping

import click
import trio
from rich.console import Console
from rich.table import Table

from tests.bench.scale import running
from tests.bench.scale.load import STEPS
from tests.bench.scale.running import Figures, Sizes

# What the 99th of a grown or held-up database may be of the empty one's.
RATIO_MAX = 1.5


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print the figures as one line of JSON on standard output.")
@click.option(
    "--rows", type=click.IntRange(min=0), default=10_000_000, show_default=True, help="Ended jobs; 0 leaves it out."
)
@click.option("--rounds", type=click.IntRange(min=8), default=1_000, show_default=True, help="Measured, of each state.")
@click.option(
    "--snapshot-minutes", type=click.FloatRange(min=0), default=10, show_default=True, help="0 leaves it out."
)
@click.option("--quick", is_flag=True, help="Small sizes: the figures mean nothing.")
def scale(as_json: bool, rows: int, rounds: int, snapshot_minutes: float, quick: bool) -> None:
    """What publishing, beginning and ending cost on a grown database, and while somebody holds an old snapshot."""
    sizes = Sizes(20_000, 16, 0.1) if quick else Sizes(rows, rounds, snapshot_minutes)
    console = Console(stderr=True, highlight=False, soft_wrap=True)

    def told(line: str) -> None:
        console.print(line, markup=False)

    figures = trio.run(running.run, sizes, told)
    console.print(_table(figures))
    if as_json:
        rounded = {state: {name: round(value, 3) for name, value in of.items()} for state, of in figures.items()}
        click.echo(json.dumps(rounded))


def _table(figures: Figures) -> Table:
    """Every step in each state, in milliseconds a hundred jobs, and how it compares with the empty database."""
    shown = Table(title="scale", caption=f"milliseconds a batch; the aim is at most {RATIO_MAX} times the empty one's")
    shown.add_column("step")
    for state in figures:
        shown.add_column(state, justify="right")
    for name in (f"{step}_{cut}" for step in STEPS for cut in ("p50", "p99")):
        shown.add_row(name, *(_cell(of, name) for of in figures.values()))
    return shown


def _cell(of: Mapping[str, float], name: str) -> str:
    if name not in of:
        return ""
    ratio = of.get(f"{name}_ratio")
    return f"{of[name]:.2f}" + ("" if ratio is None else f" ({ratio:.2f}x)")
