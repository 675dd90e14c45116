"""ARCHITECTURE.md says what the code says: its diagrams, its steps, its rooms."""

from __future__ import annotations

import re
from collections.abc import Iterable

import pytest

from tayho.kernel.steps import STEPS
from tayho.kernel.transitions import NEW, TABLES, Arrow
from tests.docs.markdown import ROOT, blocks, names_in, table_of, text_of

DOCUMENT = "ARCHITECTURE.md"
PACKAGES = {"nursery", "storage", "rpc", "sql", "tests", "tools", "deploy"}
EDGE = "[*]"
_LINE = re.compile(r"(?P<source>\S+) --> (?P<target>\S+)(?: : (?P<operation>\w+))?")


def _diagrams() -> dict[str, list[str]]:
    """The lines of each state diagram, by the table that its comment names."""
    diagrams: dict[str, list[str]] = {}
    for block in blocks(text_of(DOCUMENT), "mermaid"):
        kind, name, *lines = [line.strip() for line in block.strip().splitlines()]
        assert kind == "stateDiagram-v2"
        diagrams[name.removeprefix("%% ")] = lines
    return diagrams


def _arrows(lines: Iterable[str]) -> list[Arrow]:
    read = [_LINE.fullmatch(line) for line in lines]
    assert all(read), "every line of a diagram is an arrow"
    return [Arrow(line["source"], line["target"], line["operation"]) for line in read if line is not None]


def test_every_life_has_its_diagram() -> None:
    """Goal: no life goes undrawn. Method: the tables that the diagrams name are those of the kernel."""
    assert set(_diagrams()) == set(TABLES)


@pytest.mark.parametrize("name", TABLES)
def test_a_diagram_draws_exactly_the_listed_arrows(name: str) -> None:
    """Goal: a drawn arrow is one that the database takes, and the other way round. Method: compare with the kernel."""
    drawn = _arrows(_diagrams()[name])
    assert len(drawn) == len(set(drawn)), "no arrow is drawn twice"
    inner = {
        Arrow(NEW if arrow.source == EDGE else arrow.source, arrow.target, arrow.operation)
        for arrow in drawn
        if arrow.target != EDGE
    }
    assert inner == TABLES[name].arrows
    assert {arrow.source for arrow in drawn if arrow.target == EDGE} == TABLES[name].terminal


def test_every_step_says_who_goes_on() -> None:
    """Goal: no crash point without a word on what it leaves behind. Method: the table's steps are the kernel's, and
    the way of a job names each too."""
    text = text_of(DOCUMENT)
    rows = table_of(text, "step")
    assert sorted(name for step, _, _ in rows for name in names_in(step)) == sorted(STEPS)
    assert all(cell for row in rows for cell in row), "every cell says something"
    way = text.partition("## The life of a job")[2].partition("\n## ")[0]
    assert {name for name in names_in(way) if name in STEPS} == STEPS


def test_every_room_is_listed_and_every_listed_room_is_there() -> None:
    """Goal: who reads the table knows the tree. Method: compare it with the folders."""
    listed = {name.rstrip("/") for room, *_ in table_of(text_of(DOCUMENT), "room") for name in names_in(room)}
    inside = {f"tayho/{path.parent.name}" for path in (ROOT / "tayho").glob("*/__init__.py")}
    assert listed == PACKAGES | inside
    files = {path.name for path in (ROOT / "tayho").glob("*.py")} - {"__init__.py", "__main__.py"}
    assert files <= set(names_in(text_of(DOCUMENT)))


def test_every_invariant_says_what_holds_it() -> None:
    """Goal: no invariant is forgotten. Method: I1 to I12, in order, each with a holder or the word that one comes."""
    rows = table_of(text_of(DOCUMENT).partition("## Invariants")[2], "")
    assert [number for number, _, _ in rows] == [f"I{number}" for number in range(1, 13)]
    assert all(names_in(held) or "a later issue" in held for _, _, held in rows)
