"""Playing cells: fronts for each, the fault at its moment, one question, one outcome."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import trio
from attrs import frozen

from nursery.groups import unwrapped
from tests.rpc.front.front import Front, Nodes, fronts
from tests.rpc.front.ground import Ground
from tests.rpc.matrix.cells import Cell, Outcome, Played
from tests.rpc.matrix.sides import DEADLINE_SECONDS, Seat

_LATE = Outcome("late", name=f"nothing within {DEADLINE_SECONDS:g} s")
_WARMING_SECONDS = 20
_MAY_BE_THE_MACHINE = ("late", "error", "no quorum")


@frozen
class Stage:
    """What every cell is played on: the two chains, and the truth about every question."""

    ground: Ground
    nodes: Nodes
    truths: Mapping[str, object]


async def play(cell: Cell, seat: Seat, stage: Stage) -> Played:
    """Play one cell."""
    async with fronts(stage.nodes, cell.endpoints) as endpoints:
        if cell.way != "hedged read":
            _arm(cell, endpoints)
        async with seat.opened(cell, [endpoint.url for endpoint in endpoints], stage.ground) as asking:
            if cell.way == "hedged read":
                with trio.fail_after(_WARMING_SECONDS):
                    await asking.warm()
                _arm(cell, endpoints)
            started = trio.current_time()
            outcome = _LATE
            with trio.move_on_after(DEADLINE_SECONDS):
                outcome = await asking.ask()
            seconds = trio.current_time() - started
        met = sum(endpoints[place].met for place in cell.faulty)
    return Played(cell, outcome, stage.truths[cell.question], seconds, met)


def _arm(cell: Cell, endpoints: Sequence[Front]) -> None:
    for place in cell.faulty:
        cell.fault.arm(endpoints[place])


async def play_all(
    cells: Sequence[Cell], seats: Sequence[Seat], stage: Stage, told: Callable[[Played], None] = lambda played: None
) -> list[Played]:
    """Play cells on several seats at once; the outcomes in the order of the cells."""
    found: dict[int, Played] = {}

    async def fill(seat: Seat, places: Iterator[int]) -> None:
        for at in places:
            found[at] = await play(cells[at], seat, stage)
            told(found[at])

    async def fill_all(places: Sequence[int]) -> None:
        waiting = iter(places)
        with unwrapped():
            async with trio.open_nursery() as playing:
                for seat in seats:
                    playing.start_soon(fill, seat, waiting)

    await fill_all(range(len(cells)))
    # On a machine that stood still for a second an honest endpoint is as silent as a faulty one: what may be that is
    # played once more. A wrong value, a raw exception or a death has no such excuse.
    await fill_all([at for at, one in found.items() if one.is_red and one.outcome.kind in _MAY_BE_THE_MACHINE])
    return [found[at] for at in range(len(cells))]
