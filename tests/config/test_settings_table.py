"""The README's table of settings."""

from __future__ import annotations

import pytest

from tayho.config.variables import VARIABLES
from tools.settings_table import BEGIN, END, MarkersMissing, main, table, with_table


def test_the_table_names_every_variable_and_each_file_form():
    """Goal: nothing configurable is undocumented. Method: look for each name in the table."""
    rows = table().splitlines()[2:]
    assert len(rows) == len(VARIABLES)
    for row, variable in zip(rows, VARIABLES, strict=True):
        assert row.startswith(f"| `{variable.name}`")
        assert (f"`{variable.file_name}`" in row) == variable.is_masked
        assert row.count(" | ") == 3, "four cells, none of them broken by a bar"
        assert "|  |" not in row, "every cell says something"


def test_a_document_is_written_once_and_then_fresh(tmp_path, capsys):
    """Goal: --check fails on a stale table and only then. Method: stale, check, write, check, write again."""
    readme = tmp_path / "README.md"
    readme.write_text(f"# x\n{BEGIN}\nold\n{END}\nafter\n", encoding="utf-8")
    assert main(["--check"], readme) == 1
    assert "stale" in capsys.readouterr().err
    assert main([], readme) == 0
    written = readme.read_text(encoding="utf-8")
    assert written == f"# x\n{BEGIN}\n{table()}\n{END}\nafter\n"
    assert main(["--check"], readme) == 0
    assert main([], readme) == 0
    assert readme.read_text(encoding="utf-8") == written


def test_a_document_without_a_place_for_it_is_told_and_left_alone(tmp_path, capsys):
    """Goal: one clear line instead of a traceback. Method: no file, no markers, half of the markers."""
    readme = tmp_path / "README.md"
    assert main([], readme) == 1
    for text in ("# x\n", f"{BEGIN}\n", f"{END}\n{BEGIN}\n"):
        readme.write_text(text, encoding="utf-8")
        assert main([], readme) == 1
        assert readme.read_text(encoding="utf-8") == text
        with pytest.raises(MarkersMissing):
            with_table(text)
    assert capsys.readouterr().err.count("\n") == 4
