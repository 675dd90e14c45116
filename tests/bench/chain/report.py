"""The figures of a run as one JSON document and as a table."""

from __future__ import annotations

from collections.abc import Mapping
from os import sched_getaffinity
from typing import Any

from rich.table import Table

from tests.bench.chain.parts import TAYHO, Figures
from tests.bench.chain.peers import LIMIT, PEERS
from tests.bench.chain.processors import bound


def document(figures: Figures) -> Mapping[str, Any]:
    """The JSON document. A side that was left out is null."""
    whole: dict[str, Any] = {LIMIT: None, TAYHO: None, "peers": {peer.name: None for peer in PEERS}}
    for path, value in figures.items():
        holder = whole
        for name in path[:-1]:
            holder[name] = holder = holder.get(name) or {}
        holder[path[-1]] = round(value, 3) if value < 100 else round(value, 1)
    return whole


def table(figures: Figures) -> Table:
    """Every figure; of rates, their share of the limit."""
    shown = Table(title="transactions", caption="sent and final: per second; to limit: of pre-signed raw batches")
    for name, justify in (("side", "left"), ("figure", "left"), ("value", "right"), ("to limit", "right")):
        shown.add_column(name, justify="right" if justify == "right" else "left")
    for path, value in figures.items():
        limit = figures.get((LIMIT, path[-1]))
        share = f"{value / limit:.2f}" if limit else ""
        name = next(at for at, part in enumerate(path) if part in {TAYHO, "peers", LIMIT})
        side = " ".join(path[name : 2 if path[0] != LIMIT else 1])
        figure = " ".join(path[2 if path[0] != LIMIT else 1 :])
        shown.add_row(side, figure, f"{value:,.0f}" if value >= 100 else f"{value:,.3g}", share)
    return shown


def bounds(figures: Figures) -> list[str]:
    """What bounds each configuration of tayho, one line each."""
    cores: dict[str, dict[str, float]] = {}
    for path, value in figures.items():
        if "cores" in path:
            cores.setdefault(path[1], {})[path[-1]] = value
    return [
        f"{name}: {bound(of_it, int(name.rpartition('_')[2]), len(sched_getaffinity(0)))}"
        for name, of_it in cores.items()
    ]
