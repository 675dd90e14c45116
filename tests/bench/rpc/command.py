"""`python -m tests.bench rpc`."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Collection
from pathlib import Path

import click
import trio
from rich.console import Console

from tests.bench.delivery.neighbours import ProcessorTimes
from tests.bench.delivery.running import OTHERS_SHARE_MAX
from tests.bench.rpc import scenarios, throughput
from tests.bench.rpc.report import document, table, with_ratios
from tests.bench.rpc.scenarios import SCENARIOS, SIDES, Figures
from tests.bench.rpc.sizes import Sizes

THROUGHPUT = "throughput"
PARTS = (*(side.name for side in SIDES), THROUGHPUT)


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print the figures as one line of JSON on standard output.")
@click.option("--quick", is_flag=True, help="Small sizes: the figures mean nothing.")
@click.option("--only", default=",".join(PARTS), show_default=True, help="Parts to measure.")
def rpc(as_json: bool, quick: bool, only: str) -> None:
    """Reads over endpoints of which one hangs or is slow, beside other clients; and what the pool costs on one node."""
    parts = [name.strip() for name in only.split(",") if name.strip()]
    if unknown := sorted(set(parts) - set(PARTS)):
        raise click.BadParameter(f"no such part: {', '.join(unknown)}", param_hint="--only")
    if absent := scenarios.missing(parts):
        raise click.UsageError("; ".join(absent))
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    before = ProcessorTimes.now()
    figures = with_ratios(trio.run(_run, Sizes.quick() if quick else Sizes(), parts, console.print))
    others = ProcessorTimes.now().others_share_since(before)
    console.print(table(figures))
    if others > OTHERS_SHARE_MAX:
        console.print(f"Other programs took {others:.0%} of the machine: measure again in quiet.")
    if as_json:
        click.echo(json.dumps(document(figures)))


async def _run(sizes: Sizes, parts: Collection[str], told: Callable[[str], None]) -> Figures:
    figures: dict[tuple[str, ...], float] = {}
    with tempfile.TemporaryDirectory(prefix="tayho-bench-") as folder:
        if THROUGHPUT in parts:
            figures |= await throughput.measure(sizes, Path(folder))
            told(f"{THROUGHPUT}: pool to bare {figures['throughput', 'pool_to_bare']:.2f}")
        async with scenarios.open_endpoints(Path(folder)) as endpoints:
            for scenario in SCENARIOS:
                for side in SIDES:
                    if side.name in parts:
                        figures |= await scenarios.measure(side, scenario, endpoints, sizes, Path(folder))
                        told(f"{side.name}, {scenario}: p99 {figures[side.name, scenario, 'p99_ms']:.1f} ms")
    return figures
