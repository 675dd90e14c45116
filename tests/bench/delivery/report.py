"""What a run found: one JSON document for programs, one table for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from rich.table import Table

from tests.bench.delivery.parts import TAYHO, Figures
from tests.bench.delivery.peers import PEERS

# Of tayho's figures, the one that every peer's is held against.
REFERENCE = (TAYHO, "jobs_per_second", "1")
# For programs: that every job of every part was counted.
JOBS_COMPLETED = "jobs_completed"


def medians(repeats: Sequence[Figures]) -> Figures:
    """The median of each figure over the repeats."""
    paths = dict.fromkeys(path for figures in repeats for path in figures)
    return {path: median(figures[path] for figures in repeats if path in figures) for path in paths}


def document(figures: Figures) -> Mapping[str, Any]:
    """The JSON document. A side that was left out is null; of a peer's concurrencies the best counts."""
    ours: dict[str, Any] = {}
    for path, value in figures.items():
        if path[0] == TAYHO:
            holder = ours
            for name in path[1:-1]:
                holder = holder.setdefault(name, {})
            holder[path[-1]] = _rounded(value)
    return {TAYHO: ours or None, "peers": {peer.name: _best(figures, peer.name) for peer in PEERS}}


def table(figures: Figures) -> Table:
    """Every figure, and how the rates compare with one tayho process."""
    shown = Table(title="delivery", caption="to tayho: jobs/s as a multiple of one tayho process with 256 handlers")
    shown.add_column("side")
    shown.add_column("figure")
    shown.add_column("value", justify="right")
    shown.add_column("to tayho", justify="right")
    reference = figures.get(REFERENCE)
    for path, value in sorted(figures.items(), key=lambda entry: entry[0][0] != TAYHO):
        if path[1] == JOBS_COMPLETED:
            continue
        is_rate = path[0] == "peers" or path[1].startswith("jobs_per_second")
        ratio = f"{value / reference:.2f}" if reference and is_rate else ""
        shown.add_row(*_named(path), f"{value:,.0f}" if value >= 100 else f"{value:,.3g}", ratio)
    return shown


def _named(path: tuple[str, ...]) -> tuple[str, str]:
    if path[0] == "peers":
        return path[1], f"jobs_per_second at {path[2]}"
    return path[0], " ".join(path[1:])


def _best(figures: Figures, peer: str) -> float | None:
    found = [value for path, value in figures.items() if path[:2] == ("peers", peer)]
    return _rounded(max(found)) if found else None


def _rounded(value: float) -> float:
    return round(value, 4) if value < 100 else round(value, 1)
