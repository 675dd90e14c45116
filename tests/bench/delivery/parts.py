"""What a run is made of: parts that each measure one thing, in an order that favours nobody."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, zip_longest
from typing import TypeAlias

from attrs import frozen

from tests.bench.delivery.services import Services
from tests.bench.delivery.sizes import Sizes

TAYHO = "tayho"

# By path, such as ("tayho", "jobs_per_second", "4") or ("peers", "bullmq_python", "16").
Figures: TypeAlias = Mapping[tuple[str, ...], float]


class Incomplete(Exception):
    """Not every job was worked off: the figure would mean nothing."""


@frozen
class Part:
    """One measurement of one side."""

    side: str
    title: str
    measure: Callable[[Services, Sizes], Awaitable[Figures]]


def in_turn(ours: Sequence[Part], peers: Sequence[Part], repeat: int) -> Iterator[Part]:
    """Ours and the peers' alternately, every second repeat backwards: nobody always finds the servers warm."""
    order: Iterable[Part | None] = chain.from_iterable(zip_longest(ours, peers))
    parts = [part for part in order if part is not None]
    return reversed(parts) if repeat % 2 else iter(parts)
