"""The page on what nodes answer says what the tables say."""

from __future__ import annotations

import re

from tayho.transactions.answer_rules import CONSEQUENCES
from tayho.transactions.explaining.types import TxCause
from tayho.transactions.node_answers import reason_of
from tayho.transactions.types import Happening, Stage
from tests.docs.markdown import table_of, text_of

PAGE = "docs/node-answers.md"
OPERATIONS = "docs/operations.md"


def test_every_class_is_told_with_its_consequence() -> None:
    """Goal: the page is the table. Method: class, meaning, next mover and hold against the data; each example falls to
    the class of its line."""
    lines = table_of(text_of(PAGE), "class")
    told = {line[0].strip("`"): line[1:4] for line in lines}
    assert told == {
        reason: [
            means.meaning,
            means.next.value,
            (f"`{means.hold}`" if means.hold else "") + (", and the lane" if means.closes_lane else ""),
        ]
        for reason, means in CONSEQUENCES.items()
    }
    examples = [(line[0].strip("`"), example) for line in lines for example in re.findall(r"`([^`]+)`", line[4])]
    assert len(examples) > len(lines)
    assert [(name, reason_of(-32000, example)) for name, example in examples] == [(name, name) for name, _ in examples]


def test_every_cause_is_told() -> None:
    """Goal: no code of `tx explain` is unknown to the page. Method: the enumeration against the first column."""
    named = {name for line in table_of(text_of(PAGE), "cause") for name in re.findall(r"`([^`]+)`", line[0])}
    assert named == {cause.value for cause in TxCause}


def test_the_metrics_of_transactions_that_are_named_are_there() -> None:
    """Goal: no alert on a metric that is not there. Method: what operations.md names, against what is declared."""
    text = text_of(OPERATIONS)
    instruments = text_of("tayho/observability/transaction_instruments.py")
    for name in ("tayho_transactions", "tayho_transaction_seconds", "tayho_lineages"):
        assert f'"{name}"' in instruments
        assert name in text
    for name in re.findall(r"`tayho_lane_(\w+)`", text):
        declared = f'"{name}":' in instruments or f'"tayho_lane_{name}"' in text_of("tayho/observability/metrics.py")
        assert declared, name
    assert f'what="{Happening.ANSWERED.value}"' in text
    assert f'stage="{Stage.FINAL.value}"' in text
