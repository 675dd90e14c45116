"""Each single condition keeps a key of the journal: decided from facts alone (OPS-8)."""

from __future__ import annotations

import pytest
from attrs import evolve

from tayho.transactions.rotating.key_rules import DAY_SECONDS, RETENTION_DAYS_MIN, VOTERS_MIN, KeyFacts, missing_of_key

GOOD = KeyFacts(
    key_id="2025-a",
    members=60,
    lineages=50,
    open_lineages=0,
    undecided_lineages=0,
    sealed_seconds_ago=float(RETENTION_DAYS_MIN * DAY_SECONDS),
    retention_days=RETENTION_DAYS_MIN,
    halts=0,
    voters=VOTERS_MIN,
    lookback_blocks=64,
    head_block_number=1_064,
    block_number_max=1_000,
    agreed_lineages=50,
)


def test_a_key_that_nothing_needs_may_go() -> None:
    """Goal: the check can pass at all, at the very edge of each bound. Method: everything holds."""
    assert missing_of_key(GOOD) == ()


@pytest.mark.parametrize(
    ("change", "code", "words"),
    [
        ({"members": 0, "lineages": 0, "agreed_lineages": 0, "sealed_seconds_ago": None}, "unknown", "spelling"),
        ({"open_lineages": 1, "agreed_lineages": 49}, "open", "1 transactions"),
        ({"sealed_seconds_ago": RETENTION_DAYS_MIN * DAY_SECONDS - 1.0}, "retention", "30 days must have passed"),
        # No setting shortens it, and a longer one holds.
        ({"sealed_seconds_ago": 29.0 * DAY_SECONDS, "retention_days": 1}, "retention", "30 days must have passed"),
        ({"retention_days": 31}, "retention", "31 days must have passed"),
        ({"undecided_lineages": 2, "agreed_lineages": 48}, "no_receipt", "2 transactions"),
        ({"halts": 1}, "halted", "halted"),
        ({"voters": VOTERS_MIN - 1}, "voters", "has 2 endpoints"),
        ({"head_block_number": None}, "head", "no head"),
        ({"block_number_max": 1_001}, "shallow", "block 1001"),
        ({"agreed_lineages": 49, "differing": ("0xaa",)}, "differs", "0xaa"),
        ({"agreed_lineages": 49}, "unread", "1 receipts"),
    ],
)
def test_each_single_missing_condition_keeps_a_key(change: dict[str, object], code: str, words: str) -> None:
    """Goal: no condition is implied by another. Method: one is broken at a time; its code comes alone."""
    (missing,) = missing_of_key(evolve(GOOD, **change))
    assert missing.code == code
    assert words in missing.sentence
