"""`python -m tools.settings_table [--check]`: the README's table of settings, written from the code that reads them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from tayho.config.variable import Variable
from tayho.config.variables import VARIABLES

BEGIN = "<!-- settings:begin -->"
END = "<!-- settings:end -->"
README = Path(__file__).resolve().parents[1] / "README.md"


class MarkersMissing(Exception):
    """The document has no place for the table."""

    def __init__(self) -> None:
        super().__init__(f"no line {BEGIN} with a line {END} after it: put both where the table belongs")


def table() -> str:
    """The table of all variables, as Markdown."""
    lines = ["| variable | meaning | default | accepted |", "|---|---|---|---|", *map(_row, VARIABLES)]
    return "\n".join(lines)


def with_table(document: str) -> str:
    """The document with the table between its markers. Raises MarkersMissing."""
    before, begin, rest = document.partition(f"{BEGIN}\n")
    _, end, after = rest.partition(f"{END}\n")
    if not begin or not end:
        raise MarkersMissing
    return f"{before}{begin}{table()}\n{end}{after}"


def _row(variable: Variable[Any]) -> str:
    names = f"`{variable.name}`" + (f" or `{variable.file_name}`" if variable.is_masked else "")
    cells = (names, variable.meaning, _default(variable), variable.kind.expected)
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _default(variable: Variable[Any]) -> str:
    if variable.need is None:
        return f"`{variable.default}`" if variable.default is not None else variable.unset
    local = f"; `{variable.default}` there" if variable.default is not None else ""
    return f"{variable.need.value}{local}"


def main(arguments: list[str], readme: Path = README) -> int:
    """Write the table into the README, or with --check say whether it is stale. 0 when all is well, else 1."""
    try:
        document = readme.read_text(encoding="utf-8")
        fresh = with_table(document)
    except (OSError, MarkersMissing) as error:
        sys.stderr.write(f"{readme.name}: {error}\n")
        return 1
    if document == fresh:
        return 0
    if "--check" in arguments:
        sys.stderr.write(f"{readme.name}: the table of settings is stale: run python -m tools.settings_table\n")
        return 1
    readme.write_text(fresh, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
