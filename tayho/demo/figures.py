"""From what engines and chain said to the report's figures. Pure."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from tayho.client import IntentProgress
from tayho.demo.counting import ChainTally
from tayho.demo.types import Figures


def figures_of(told: Sequence[IntentProgress], tally: ChainTally, *, dead: int) -> Figures:
    """`told` is every intent that an engine took, as an engine tells of it now."""
    states = Counter(one.state for one in told)
    digests = [one.digest for one in told]
    must_be_there = [one.digest for one in told if one.state != "quarantined"]
    waits = sorted(_accept_to_final_ms(told))
    carried = [count for count in tally.children_per_batch if count]
    return Figures(
        accepted=len(set(digests)),
        completed=states["completed"],
        quarantined=states["quarantined"],
        batches=len(carried),
        children_per_batch_mean=round(sum(carried) / len(carried), 1) if carried else 0,
        children_per_batch_max=max(carried, default=0),
        accept_to_final_ms_p50=percentile(waits, 50),
        accept_to_final_ms_p99=percentile(waits, 99),
        orders=tally.events("OrderPlaced"),
        claims=tally.events("ClaimMade"),
        duplicates=tally.duplicates(digests),
        lost=tally.missing(must_be_there),
        roles=tally.roles,
        dead=dead,
    )


def percentile(ordered: Sequence[int], percent: int) -> int:
    """The least value that so many in a hundred do not exceed; 0 of none."""
    return ordered[math.ceil(len(ordered) * percent / 100) - 1] if ordered else 0


def _accept_to_final_ms(told: Sequence[IntentProgress]) -> list[int]:
    return [
        round((one.changed_at - one.accepted_at).total_seconds() * 1_000) for one in told if one.state == "completed"
    ]
