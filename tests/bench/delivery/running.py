"""One run: the servers, every part of every repeat on them, and how undisturbed each was."""

from __future__ import annotations

from collections.abc import Callable, Collection

from attrs import frozen

from nursery.asyncio_bridge import open_bridge
from tests.bench.delivery import peers, tayho_side
from tests.bench.delivery.neighbours import ProcessorTimes
from tests.bench.delivery.parts import TAYHO, Figures, Part, in_turn
from tests.bench.delivery.services import Services, open_services
from tests.bench.delivery.sizes import Sizes

# Above this share of the machine in other hands a figure is not worth keeping.
OTHERS_SHARE_MAX = 0.1


@frozen
class Taken:
    """One measurement of one part."""

    part: Part
    figures: Figures
    # The share of the machine that other programs took meanwhile.
    others_share: float

    @property
    def is_disturbed(self) -> bool:
        return self.others_share > OTHERS_SHARE_MAX

    def __str__(self) -> str:
        values = ", ".join(f"{' '.join(path[1:])} {value:,.3f}" for path, value in self.figures.items())
        return f"{self.part.side}, {self.part.title}: {values} (others {self.others_share:.0%})"


async def run(
    sizes: Sizes, sides: Collection[str], repeats: int, tries: int, told: Callable[[Taken], None]
) -> list[list[Taken]]:
    """What was taken in each repeat. `told` hears of every try at once.

    Of a part that other programs disturb, up to `tries` are made, and the least disturbed one is taken.
    """
    ours = tayho_side.parts() if TAYHO in sides else []
    async with open_bridge(), open_services() as services:
        return [
            [await _taken(part, services, sizes, tries, told) for part in in_turn(ours, peers.parts(sides), repeat)]
            for repeat in range(repeats)
        ]


async def profile(jobs: int) -> str:
    """Where one worker spends its time, as a table."""
    async with open_bridge(), open_services() as services:
        return await tayho_side.profile(services, jobs)


async def _taken(part: Part, services: Services, sizes: Sizes, tries: int, told: Callable[[Taken], None]) -> Taken:
    taken: list[Taken] = []
    while len(taken) < tries:
        before = ProcessorTimes.now()
        figures = await part.measure(services, sizes)
        taken.append(Taken(part, figures, ProcessorTimes.now().others_share_since(before)))
        told(taken[-1])
        if not taken[-1].is_disturbed:
            break
    return min(taken, key=lambda one: one.others_share)
