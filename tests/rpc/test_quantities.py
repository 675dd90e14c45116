"""Strict hex: one spelling per number, exact lengths, bounded sizes."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rpc.quantities import Unreadable, as_data, as_quantity, data, excerpt, hash32, quantity, uint64, uint256


@given(st.integers(min_value=0, max_value=2**256 - 1))
def test_a_quantity_survives_writing_and_reading(number: int) -> None:
    """Goal: no amount is changed on its way. Method: write and read any uint256."""
    assert uint256(as_quantity(number)) == number


@given(st.binary(max_size=200))
def test_data_survive_writing_and_reading(content: bytes) -> None:
    """Goal: no byte is changed on its way. Method: write and read any bytes."""
    assert data(as_data(content)) == content


@given(st.text() | st.text(alphabet="0123456789abcdefABCDEFxX \t\n\x1f_\u0661").map("0x".__add__))
@example("0x12 34")
@example("0x\n12")
@example("0x1 2")
@example("0xA\u0661")
def test_data_are_pairs_of_hex_digits_and_nothing_between_them(value: str) -> None:
    """Goal: no text has two readings. Method: any text, and near misses; data exactly where the grammar says so."""
    if re.fullmatch("0x(?:[0-9a-fA-F]{2})*", value):
        assert as_data(data(value)) == value.lower()
    else:
        with pytest.raises(Unreadable):
            data(value)


@pytest.mark.parametrize(
    "value",
    [
        "0x",
        "0x00",
        "0x01",
        "0x0ff",
        "0X1",
        "1",
        "",
        "0x1 ",
        " 0x1",
        "0x1\n",
        "-0x1",
        "0x-1",
        "0x+1",
        "0x1_0",
        "0xg",
        "0x1.0",
        "0x\u0661",  # an Arabic digit: a digit to int(), not to JSON-RPC
        1,
        True,
        None,
        1.5,
        [],
        {},
        ["0x1"],
    ],
)
def test_a_quantity_has_one_spelling(value: object) -> None:
    """Goal: leading zeros, other notations and other types are refused. Method: one example of each."""
    with pytest.raises(Unreadable):
        uint256(value)


def test_a_quantity_overflows_at_its_width() -> None:
    """Goal: the bound is exact, for bytes and for odd bits. Method: the largest that fits and the next."""
    assert uint64("0xffffffffffffffff") == 2**64 - 1
    assert quantity("0x1", 1) == 1
    for value, bits in [("0x10000000000000000", 64), ("0x1" + "0" * 64, 256), ("0x2", 1), ("0x8", 3)]:
        with pytest.raises(Unreadable, match="does not fit"):
            quantity(value, bits)


@pytest.mark.parametrize("value", ["0x0", "0xabc", "0x", "abcd", "0xzz", None, 12, "0x" + "00" * 31, "0x" + "00" * 33])
def test_data_of_a_length_have_that_length(value: object) -> None:
    """Goal: a hash is 32 bytes or no hash. Method: odd digits, other lengths, other types."""
    with pytest.raises(Unreadable):
        hash32(value)


def test_builders_refuse_what_no_node_reads() -> None:
    """Goal: our own mistakes stop before the wire. Method: a negative quantity, an address of 19 bytes."""
    with pytest.raises(ValueError, match="negative"):
        as_quantity(-1)
    with pytest.raises(ValueError, match="expected 20"):
        as_data(b"\x01" * 19, 20)


def test_excerpts_of_foreign_values_are_short_and_printable() -> None:
    """Goal: an error message cannot be flooded or forged by what it quotes. Method: a long hostile string."""
    shown = excerpt("0x\n\x1b[2J" + "f" * 1_000_000)
    assert len(shown) < 50
    assert shown.isprintable()
