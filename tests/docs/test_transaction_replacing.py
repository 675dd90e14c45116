"""docs/transactions.md says of replacement what the code does: its holds, its commands, its words in the log."""

from __future__ import annotations

from tayho.cli.tx import tx_group
from tayho.transactions.replacing.cancelling import CANCELLED_UNSIGNED
from tayho.transactions.replacing.rules import OURS
from tests.docs.markdown import ROOT, names_in, table_of, text_of

DOCUMENT = "docs/transactions.md"


def test_the_holds_are_those_of_the_rules() -> None:
    """Goal: an operator finds every hold of these rules on the page, and no other. Method: compare the table."""
    told = [name for hold, _, _ in table_of(text_of(DOCUMENT), "hold") for name in names_in(hold)]
    assert told == list(OURS)


def test_the_commands_take_the_options_that_are_written() -> None:
    """Goal: what is on the page can be typed. Method: the options of each line against the command's own."""
    lines = [line.split() for line in text_of(DOCUMENT).splitlines() if line.startswith("    tayho tx ")]
    assert {line[2] for line in lines} == {"bump", "cancel"}
    for line in lines:
        known = {option for one in tx_group.commands[line[2]].params for option in one.opts}
        assert {word.strip("[]") for word in line if word.startswith("[--")} == {
            option for option in known if option.startswith("--")
        }


def test_the_words_of_log_and_job_are_written() -> None:
    """Goal: who searches for a word finds it. Method: the words stand on the page and in the code."""
    words = names_in(text_of(DOCUMENT))
    code = (ROOT / "tayho/transactions/replacing/rounds.py").read_text()
    assert "lineage_held" in words
    assert '"lineage_held"' in code
    assert {CANCELLED_UNSIGNED, "CancelledOnChain"} <= set(words)
