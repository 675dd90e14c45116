"""What a run found: one JSON document for programs, one table for people."""

from __future__ import annotations

from typing import Any

from rich.table import Table

from tests.bench.rpc.scenarios import SCENARIOS, SIDES, Figures


def with_ratios(figures: Figures) -> Figures:
    """The figures, and of each side how much later its latest reads are than on healthy endpoints."""
    found = dict(figures)
    for side in SIDES:
        healthy = figures.get((side.name, "healthy", "p99_ms"))
        for scenario in SCENARIOS:
            late = figures.get((side.name, scenario, "p99_ms"))
            if healthy and late is not None and scenario != "healthy":
                found[side.name, scenario, "p99_to_healthy"] = late / healthy
    return found


def document(figures: Figures) -> dict[str, Any]:
    """The JSON document, nested by path."""
    whole: dict[str, Any] = {}
    for path, value in figures.items():
        holder = whole
        for name in path[:-1]:
            holder = holder.setdefault(name, {})
        holder[path[-1]] = round(value, 3)
    return whole


def table(figures: Figures) -> Table:
    """Every figure."""
    shown = Table("what", "figure", title="rpc")
    shown.columns[1].justify = "right"
    for path, value in figures.items():
        shown.add_row(" ".join(path), f"{value:,.0f}" if value >= 100 else f"{value:,.3g}")
    return shown
