"""docs/scheduling.md says what the code does: its example, its fields, its words in the log."""

from __future__ import annotations

from typing import cast

import attrs

from tayho.coordination.module import schedule_problems
from tayho.kernel.schedule import Schedule
from tayho.kinds import OffChainKind
from tayho.plugins import declared_by
from tests.docs.markdown import ROOT, blocks, names_in, table_of, text_of

DOCUMENT = "docs/scheduling.md"


def test_the_example_declares_schedules_that_can_run() -> None:
    """Goal: the example can be copied. Method: run it, and judge what it declares as a start would."""
    defined: dict[str, object] = {}
    (block,) = blocks(text_of(DOCUMENT), "python")
    exec(compile(block, DOCUMENT, "exec"), defined)  # noqa: S102 - our own document
    kind = cast("type[OffChainKind]", defined["OrderScan"])()
    assert isinstance(kind, OffChainKind)
    declared = declared_by([kind])
    assert [one.schedule.name for one in declared] == ["orders-scan", "orders-nightly"]
    assert schedule_problems(declared) == []


def test_every_field_is_told() -> None:
    """Goal: nothing can be declared that the page is silent about. Method: compare its table with the value."""
    told = [name for cell, _ in table_of(text_of(DOCUMENT), "field") for name in names_in(cell)]
    assert told == list(attrs.fields_dict(Schedule))


def test_every_word_of_the_log_is_one_that_the_scheduler_writes() -> None:
    """Goal: who searches the log for a word finds it. Method: the words of the page stand in the code."""
    code = (ROOT / "tayho/coordination/schedules.py").read_text() + (ROOT / "tayho/coordination/module.py").read_text()
    words = {name for name in names_in(text_of(DOCUMENT)) if name.startswith("schedule_")}
    assert words
    assert all(f'"{word}"' in code for word in words), words
