"""`python -m tests.bench chain`."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Sequence

import click
import trio
from attrs import evolve
from rich.console import Console

from nursery.asyncio_bridge import open_bridge
from tests.bench.chain import peers, tayho_side
from tests.bench.chain.parts import TAYHO, Figures
from tests.bench.chain.report import bounds, document, table
from tests.bench.chain.sizes import Sizes
from tests.bench.delivery.neighbours import ProcessorTimes
from tests.bench.delivery.running import OTHERS_SHARE_MAX
from tests.bench.delivery.services import open_services

SIDES = (peers.LIMIT, TAYHO, *(peer.name for peer in peers.PEERS))
_DEFAULT = Sizes()


def _numbers(context: click.Context, parameter: click.Parameter, text: str | None) -> Sequence[int] | None:
    try:
        return None if text is None else tuple(int(one) for one in text.split(","))
    except ValueError as error:
        raise click.BadParameter("expected whole numbers with commas between them") from error


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print the figures as one line of JSON on standard output.")
@click.option("--seconds", type=click.FloatRange(min=1), help=f"Of each side.  [default: {_DEFAULT.seconds:g}]")
@click.option("--lanes", callback=_numbers, help="Numbers of lanes.  [default: 1,2,4,16]")
@click.option("--replicas", callback=_numbers, help="Numbers of replicas.  [default: 1,2]")
@click.option("--quick", is_flag=True, help="Small sizes: the figures mean nothing.")
@click.option("--only", default=",".join(SIDES), show_default=True, help="Sides to measure.")
@click.option("--profile", is_flag=True, help="Profile tayho's replicas too, which slows them down.")
def chain(
    as_json: bool,
    seconds: float | None,
    lanes: Sequence[int] | None,
    replicas: Sequence[int] | None,
    quick: bool,
    only: str,
    profile: bool,
) -> None:
    """Transactions a second, sent and final, on a local chain with one-second blocks, beside other senders."""
    given = {"seconds": seconds, "lanes": lanes, "replicas": replicas, "profile": profile or None}
    sizes = evolve(
        _DEFAULT.quick() if quick else _DEFAULT, **{name: value for name, value in given.items() if value is not None}
    )
    sides = _sides(only)
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    before = ProcessorTimes.now()
    figures = trio.run(_run, sizes, sides, lambda line: console.print(line, markup=False))
    others = ProcessorTimes.now().others_share_since(before)
    console.print(table(figures))
    for line in bounds(figures):
        console.print(line)
    console.print(f"SIGNER_LANE_DEPTH by lanes: {sizes.depth}; QUEUE_CONCURRENCY {sizes.concurrency}.")
    if others > OTHERS_SHARE_MAX:
        console.print(f"Other programs took {others:.0%} of the machine: measure again in quiet.")
    if as_json:
        click.echo(json.dumps(document(figures)))


def _sides(only: str) -> Sequence[str]:
    sides = [name.strip() for name in only.split(",") if name.strip()]
    if unknown := sorted(set(sides) - set(SIDES)):
        raise click.BadParameter(f"no such side: {', '.join(unknown)}", param_hint="--only")
    if absent := peers.missing(sides):
        raise click.UsageError("; ".join(absent))
    return sides


async def _run(sizes: Sizes, sides: Collection[str], told: Callable[[str], None]) -> Figures:
    figures: dict[tuple[str, ...], float] = {}
    async with open_bridge(), open_services() as services:
        for part in (*peers.parts(sides), *(tayho_side.parts(sizes) if TAYHO in sides else ())):
            taken = await part.measure(services, sizes)
            figures |= taken
            values = ", ".join(f"{' '.join(path[1:])} {value:,.1f}" for path, value in taken.items())
            told(f"{part.side}, {part.title}: {values}")
    return figures
