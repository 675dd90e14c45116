"""Our encoder of RLP against the library that reads what it wrote."""

from __future__ import annotations

import rlp
from hypothesis import example, given
from hypothesis import strategies as st

from tayho.custody.rlp_forms import decoded_items, encode
from tayho.custody.types import Rlp

ITEMS = st.recursive(st.binary(max_size=80), lambda inner: st.lists(inner, max_size=6), max_leaves=20)


@given(ITEMS)
@example(b"")
@example(b"\x00")
@example(b"\x7f")
@example(b"\x80")
@example(bytes(55))
@example(bytes(56))
@example(bytes(255))
@example(bytes(256))
@example(bytes(2**16))
@example([bytes(2**16), []])
@example([b"a"] * 55)
@example([b"a"] * 56)
def test_it_is_the_librarys_byte_for_byte(item: Rlp) -> None:
    """Goal: what is signed is what every other encoder signs. Method: any nesting of any bytes, and each length where
    the form changes, against `rlp`."""
    assert encode(item) == rlp.encode(item, infer_serializer=False)


@given(st.lists(ITEMS, max_size=8))
def test_what_is_encoded_is_read_back(items: list[Rlp]) -> None:
    """Goal: writer and reader agree. Method: any list, there and back."""
    assert decoded_items(encode(items)) == items
