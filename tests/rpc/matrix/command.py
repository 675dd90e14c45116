"""The command: which sides play, on which faults, and how the outcome is shown."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path

import click
import trio

from tests.rpc.front.front import nodes
from tests.rpc.front.ground import Ground, ground
from tests.rpc.matrix import ours, peers, report
from tests.rpc.matrix.cells import Played, all_faults, cells_of
from tests.rpc.matrix.playing import Stage, play_all
from tests.rpc.matrix.questions import truths
from tests.rpc.matrix.sides import Seat

OURS = "tayho"
SIDES = (OURS, *peers.PEERS)


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document, and no table.")
@click.option("--markdown", type=click.Path(dir_okay=False, path_type=Path), help="Write the published table here.")
@click.option("--side", "sides", type=click.Choice(SIDES), multiple=True, default=SIDES, help="Play only these.")
@click.option("--fault", "wanted", default="", help="Play only faults with this in their name.")
@click.option("--seats", default=6, show_default=True, help="Cells of a side at once; a peer has so many processes.")
@click.option("--show-red", is_flag=True, help="Name each red cell, with what it should have been.")
def matrix(
    *, as_json: bool, markdown: Path | None, sides: Sequence[str], wanted: str, seats: int, show_red: bool
) -> None:
    """Every fault, at the first, the second or all of three endpoints, under reads, hedged reads, votes, finality."""
    with ground() as base:
        found = trio.run(_run, base, sides, wanted, seats)
    if markdown is not None:
        markdown.write_text(report.markdown(found), encoding="utf-8")
    if show_red:
        click.echo("\n".join(report.red_cells(found)), err=True)
    click.echo(json.dumps(report.figures(found, OURS)) if as_json else report.table(found))
    sys.exit(1 if any(played.is_red for played in found.get(OURS, ())) else 0)


async def _run(base: Ground, sides: Sequence[str], wanted: str, seats: int) -> dict[str, list[Played]]:
    cells = cells_of([fault for fault in all_faults(base) if wanted in fault.name])
    found: dict[str, list[Played]] = {}
    async with AsyncExitStack() as opened, nodes(base) as both:
        stage = Stage(base, both, await truths(base))

        async def play_side(side: str) -> None:
            found[side] = await play_all(cells, places[side], stage)

        places: dict[str, Sequence[Seat]] = {}
        for side in sides:
            places[side] = (
                ours.seats(seats) if side == OURS else await opened.enter_async_context(peers.seats_of(side, seats))
            )
        # Ours first and alone: its times are not to suffer from those that are only compared with.
        if OURS in sides:
            await play_side(OURS)
        async with trio.open_nursery() as playing:
            for side in sides:
                if side != OURS:
                    playing.start_soon(play_side, side)
    return {side: found[side] for side in sides}
