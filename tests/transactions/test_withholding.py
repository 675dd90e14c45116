"""Whatever a node repeats of what it was sent, its words are kept and the bytes are not (TX-2)."""

from __future__ import annotations

import base64
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tayho.transactions.withholding import WITHHELD, without_bytes

FORMS: dict[str, Callable[[bytes], str]] = {
    "hex": bytes.hex,
    "0x": lambda raw: f"0x{raw.hex()}",
    "upper": lambda raw: raw.hex().upper(),
    "base64": lambda raw: base64.b64encode(b"\x02" + raw).decode(),
    "urlsafe": lambda raw: base64.urlsafe_b64encode(b"\x02" + raw).decode(),
    "cut off": lambda raw: f"0x{raw.hex()[:80]}",
}


@pytest.mark.parametrize("form", FORMS)
@given(raw=st.binary(min_size=100, max_size=400))
def test_bytes_are_taken_out_in_every_form(form: str, raw: bytes) -> None:
    """Goal: signed bytes reach no table by way of a refusal. Method: any bytes in each form amid a refusal's words."""
    said = FORMS[form](raw)
    written = without_bytes(f"cannot take {said}: pool is full", raw)
    assert written.startswith("cannot take ")
    assert WITHHELD in written
    assert written.endswith(": pool is full")
    assert len(written) < len("cannot take : pool is full") + len(WITHHELD) + 8, written


@given(raw=st.binary(min_size=100, max_size=400), place=st.integers(0, 68), other=st.binary(min_size=32, max_size=32))
def test_hashes_are_kept_and_signatures_are_not(raw: bytes, place: int, other: bytes) -> None:
    """Goal: an operator still reads which transaction is meant, and nobody the two numbers that sign it. Method: any 32
    bytes of the transaction, and any others."""
    part = raw[place : place + 32]
    assert without_bytes(f"r=0x{part.hex()}", raw) == f"r=0x{WITHHELD}"
    if other.hex() not in raw.hex():
        assert without_bytes(f"known: 0x{other.hex()}", raw) == f"known: 0x{other.hex()}"


@given(words=st.text(max_size=200).filter(lambda text: len(text.encode()) < 64))
def test_words_are_kept(words: str) -> None:
    """Goal: a refusal is read as it was said. Method: any words without a long run of digits or letters."""
    assert without_bytes(words, b"\x02" * 120) == words
