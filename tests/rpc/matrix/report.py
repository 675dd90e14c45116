"""The matrix as figures for a program, as a table for a terminal, and as the published page."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from rich.console import Console
from rich.table import Table

from tests.rpc.matrix.cells import Cell, Played
from tests.rpc.matrix.fault import WAYS, Placement

Found = Mapping[str, Sequence[Played]]

_PLACEMENTS: tuple[Placement, ...] = ("first", "second", "all", "two of five")
_SHORT = {"value": "right", "no quorum": "NoQuorum"}


def figures(found: Found, ours: str) -> dict[str, object]:
    """What a program reads: how many cells, how many red, and which."""

    def counted(cells: Sequence[Played]) -> dict[str, object]:
        red = [played for played in cells if played.is_red]
        return {
            "red": len(red),
            "late": sum(played.outcome.kind == "late" for played in red),
            "wrong": sum(played.outcome.kind == "value" for played in red),
            "raw": sum(played.outcome.kind == "raw" for played in red),
            "crashed": sum(played.outcome.kind == "crashed" for played in red),
            "seconds_max": round(max((played.seconds for played in cells), default=0), 3),
            "unmet": sum(played.met == 0 for played in cells),
            "red_cells": [str(played.cell) for played in red],
        }

    any_side = next(iter(found.values()))
    own = {"cells": len(any_side)} | (counted(found[ours]) if ours in found else {"red": None})
    return own | {"peers": {side: counted(cells) for side, cells in found.items() if side != ours}}


def red_cells(found: Found) -> Iterable[str]:
    """Each red cell on a line, with what came of it."""
    for side, cells in found.items():
        for played in cells:
            if played.is_red:
                told = played.outcome.value if played.outcome.kind == "value" else played.outcome.name
                yield f"{side}: {played.cell}: {played.outcome.kind} {told}; must be {played.cell.must.value}"


def table(found: Found) -> str:
    """A row a fault, a column a side: red cells of all, and what they were."""
    shown = Table("fault", "cells", *found, title="Red cells of the fault matrix")
    for name, rows in _by_fault(found).items():
        count = len(next(iter(rows.values())))
        shown.add_row(name, str(count), *(_summed(rows[side]) for side in found))
    totals = [str(sum(played.is_red for played in cells)) for cells in found.values()]
    shown.add_section()
    shown.add_row("all", str(len(next(iter(found.values())))), *totals)
    out = io.StringIO()
    Console(file=out, width=120).print(shown)
    return out.getvalue()


def _summed(cells: Sequence[Played]) -> str:
    kinds = Counter(_why(played) for played in cells if played.is_red)
    return ", ".join(f"{count} {kind}" for kind, count in kinds.most_common()) or "·"


def _why(played: Played) -> str:
    return {"value": "wrong", "raw": "raw exception", "error": "refused", "no quorum": "refused"}.get(
        played.outcome.kind, played.outcome.kind
    )


def _by_fault(found: Found) -> dict[str, dict[str, list[Played]]]:
    grouped: dict[str, dict[str, list[Played]]] = {}
    for side, cells in found.items():
        for played in cells:
            grouped.setdefault(played.cell.fault.name, {name: [] for name in found})[side].append(played)
    return grouped


def markdown(found: Found) -> str:
    """The published page: how to read it, the totals, and a row for each fault and place."""
    lines = [_INTRODUCTION, *_totals(found), "", *_cells(found)]
    return "\n".join(lines) + "\n"


def _totals(found: Found) -> Iterable[str]:
    yield "| | cells | red | wrong value | too late | no name | refused | process died |"
    yield "|---|---|---|---|---|---|---|---|"
    for side, cells in found.items():
        kinds = Counter(played.outcome.kind for played in cells if played.is_red)
        refused = kinds["error"] + kinds["no quorum"]
        counts = (kinds["value"], kinds["late"], kinds["raw"], refused, kinds["crashed"])
        yield f"| {side} | {len(cells)} | {kinds.total()} | " + " | ".join(map(str, counts)) + " |"


def _cells(found: Found) -> Iterable[str]:
    group = ""
    outcomes = {side: {_key(played.cell): played for played in cells} for side, cells in found.items()}
    rows = dict.fromkeys((p.cell.fault.group, p.cell.fault.name, p.cell.placement) for p in next(iter(found.values())))
    for row_group, name, placement in rows:
        if row_group != group:
            group = row_group
            yield f"\n## {group[0].upper()}{group[1:]}\n"
            yield "| fault | at | " + " | ".join(f"{side}: {way}" for way in WAYS for side in found) + " |"
            yield "|---" * (2 + len(WAYS) * len(found)) + "|"
        marks = [_mark(outcomes[side].get((name, placement, way))) for way in WAYS for side in found]
        yield f"| {name} | {placement} | " + " | ".join(marks) + " |"


def _key(cell: Cell) -> tuple[str, str, str]:
    return cell.fault.name, cell.placement, cell.way


def _mark(played: Played | None) -> str:
    if played is None:
        return ""
    if played.is_red:
        return f"**{_why(played)}**"
    if played.outcome.kind == "value":
        return "right" if played.outcome.value == played.truth else "not yet"
    return _SHORT.get(played.outcome.kind, played.outcome.name)


_INTRODUCTION = """# The fault matrix of reads

Written by `python -m tests.rpc.matrix --markdown docs/rpc-fault-matrix.md`; `tests/rpc/test_matrix.py` plays ours.

Each fault is put before a real node: at the first, the second, or all of three endpoints. A question of known answer
is then asked in four ways. A **read** asks a pool that was just opened. A **hedged read** asks one that has seen the
endpoints healthy, so that it knows how long an answer takes; then the fault begins. A **vote** needs a majority.
**Finality** asks for a receipt, the head, and the canonical block. Every side has the same time: 0.7 s an endpoint,
three in all.

Green is the right value. Where every endpoint is faulty, and where a refusal is the honest answer, a refusal by name is
green too; "not yet" (null) only where endpoints may not have the data. Red, in bold, is a wrong value, an exception
without a name, no answer in time, a refusal although an honest answer was to be had, and a process that died. An empty
cell is not judged: a single well-formed lie cannot be told from the truth by a single answer, nor can a majority that
lies alike. A cell that is red for want of an answer is played once more on every side: a machine that stands
still for a second is no fault of theirs.

ethers is `FallbackProvider` with quorum 1 for reads, and a majority for votes and finality; its request timeout is set
to the same 0.7 s, its stall timeout to 100 ms. viem is its `fallback` transport, with the same timeout and no retries,
since its own would pass the deadline; it has no votes, so its votes are reads. Their finality is the loop that their
users write: a receipt, a head that is deep enough, and the block of that height with the receipt's hash.
"""
