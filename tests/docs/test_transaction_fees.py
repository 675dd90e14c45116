"""docs/transactions.md says of fees what the code does: its figures, its types, its words in the log."""

from __future__ import annotations

from tayho.transactions import data_fees, fee_market, fees
from tests.docs.markdown import ROOT, names_in, table_of, text_of

DOCUMENT = "docs/transactions.md"
FIGURES = [
    fees.BASE_FEE_HEADROOM_BLOCKS,
    fee_market.HISTORY_BLOCKS,
    fee_market.TIP_PERCENTILE,
    fees.TIP_JUMP_MAX,
    fees.GAS_BUFFER_BASIS_POINTS,
    data_fees.DATA_FEE_HEADROOM_BASIS_POINTS,
]


def test_the_figures_are_those_of_the_code() -> None:
    """Goal: a figure that changes in the code changes on the page. Method: compare the table, in order."""
    assert [int(value) for _, value in table_of(text_of(DOCUMENT), "figure")] == FIGURES


def test_each_type_is_replaced_as_the_page_says() -> None:
    """Goal: the rule of each type is told. Method: compare the table with the policy's."""
    told = {int(kind.split(",")[0]): int(rise.split(" ")[0]) for kind, rise in table_of(text_of(DOCUMENT), "type")}
    assert told == fees.NODES_ASK_BASIS_POINTS


def test_the_words_of_the_log_are_written() -> None:
    """Goal: who searches the log for a word finds it. Method: the words of the page stand in the code."""
    code = (ROOT / "tayho/transactions/fee_market.py").read_text()
    words = {name for name in names_in(text_of(DOCUMENT)) if name in ("tip_bounded", "fee_history_absurd")}
    assert len(words) == 2
    assert all(f'"{word}"' in code for word in words)
