"""What a run is made of: parts that each measure one side."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TypeAlias

from attrs import frozen

from tests.bench.chain.sizes import Sizes
from tests.bench.delivery.services import Services

TAYHO = "tayho"

# By path, such as ("tayho", "lanes_4_replicas_1", "sent") or ("peers", "viem", "final").
Figures: TypeAlias = Mapping[tuple[str, ...], float]


@frozen
class Part:
    """One measurement of one side."""

    side: str
    title: str
    measure: Callable[[Services, Sizes], Awaitable[Figures]]
