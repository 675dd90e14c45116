"""Reading our own documents: tables, code blocks, and names in backticks."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_CODE = re.compile(r"`([^`\n]+)`")


def text_of(document: str) -> str:
    return (ROOT / document).read_text(encoding="utf-8")


def tables(text: str) -> list[list[list[str]]]:
    """Every table as its rows of cells, the heading row first."""
    found: list[list[list[str]]] = []
    inside = False
    for line in text.splitlines():
        if not line.startswith("|"):
            inside = False
            continue
        if not inside:
            found.append([])
        inside = True
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if not all(re.fullmatch("-+", cell) for cell in cells):
            found[-1].append(cells)
    return found


def table_of(text: str, heading: str) -> list[list[str]]:
    """The rows below the heading of the one table whose first column is headed so."""
    (rows,) = [table[1:] for table in tables(text) if table[0][0] == heading]
    return rows


def blocks(text: str, language: str) -> list[str]:
    """The contents of the fenced blocks in a language."""
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


def names_in(cell: str) -> list[str]:
    """What stands in backticks."""
    return _CODE.findall(cell)
