"""Any bytes become plain values or Unreadable, in time proportional to their number."""

from __future__ import annotations

import json
import time
from contextlib import suppress
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rpc.json_text import DEPTH_MAX, parse_json
from rpc.quantities import Unreadable

DOCUMENTS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=30,
)


@given(DOCUMENTS)
def test_honest_json_is_read_as_it_is(document: object) -> None:
    """Goal: strictness loses nothing. Method: whatever the standard library writes, except too deep."""
    assert parse_json(json.dumps(document).encode()) == document


@given(st.binary() | st.text().map(str.encode) | st.text(alphabet='[]{}",:\\01eE.-ux \n').map(str.encode))
def test_no_body_raises_anything_but_unreadable(body: bytes) -> None:
    """Goal: nothing raw escapes the reader. Method: arbitrary bytes, texts, and soups of JSON's own characters."""
    with suppress(Unreadable):
        parse_json(body)


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"", "empty"),
        (b"  \r\n", "empty"),
        (b"<!doctype html><html></html>", "HTML"),
        (b"\n <?xml version='1.0'?>", "HTML"),
        (b"\xff\xfe{}", "not valid JSON"),
        (b"\xef\xbb\xbf{}", "not valid JSON"),
        (b'{"a":NaN}', "NaN"),
        (b'{"a":-Infinity}', "Infinity"),
        (b'{"a":1} {"a":2}', "not valid JSON"),
        (b'{"a":1,"a":1}', "given twice"),
        (b'{"id":1,"result":{"x":1,"x":2}}', "given twice"),
        (b"9" * 5000, "not valid JSON"),
        (b"1e99999999999999999999", "not valid JSON"),
        (b"[" * (DEPTH_MAX + 1) + b"]" * (DEPTH_MAX + 1), "deep"),
        (b"[" * 1_000_000, "deep"),
        (b'{"a":' * 100_000, "deep"),
        (b'["[[[[", ' + b"[" * DEPTH_MAX + b"]" * DEPTH_MAX + b"]", "deep"),
    ],
)
def test_hostile_bodies_are_named(body: bytes, why: str) -> None:
    """Goal: each kind of bad body has its clear reason. Method: one example of each."""
    with pytest.raises(Unreadable, match=why):
        parse_json(body)


def test_brackets_inside_strings_are_no_depth() -> None:
    """Goal: a contract's string cannot make an honest answer unreadable. Method: brackets, quotes, escapes in one."""
    text = '[{"' * 500 + "\\"
    assert parse_json(json.dumps([text, {"a": text}]).encode()) == [text, {"a": text}]


@pytest.mark.parametrize("text", ["", '[{"', "\\", '\\"[['])
@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"a":', "}")])
def test_the_bound_on_depth_is_exact(opening: str, closing: str, text: str) -> None:
    """Goal: the deepest answer allowed is read, and none deeper. Method: objects and arrays at the bound and one below
    it, beside shallow neighbours, with brackets in texts, with and without escapes."""
    beside = json.dumps([[], {}, text])
    for depth in (DEPTH_MAX - 1, DEPTH_MAX):
        body = f"[{beside},{opening * depth}1{closing * depth},{beside}]".encode()
        if depth < DEPTH_MAX:
            assert parse_json(body)
        else:
            with pytest.raises(Unreadable, match="deep"):
                parse_json(body)


def test_fractions_are_exact() -> None:
    """Goal: no float ever exists. Method: a fraction that no float holds."""
    assert parse_json(b"[0.1, 1E2]") == [Decimal("0.1"), Decimal("1E+2")]


def test_reading_takes_linear_time() -> None:
    """Goal: no small body keeps the process busy. Method: megabytes of shapes that make patterns backtrack."""
    started = time.process_time()
    for shape in (b'"\\"', b'"a', b'\\"', b'"\\', b'[{"a":"', b'{"a":1,'):
        for start in (b"[" * 40, b'["'):
            with pytest.raises(Unreadable):
                parse_json(start + shape * 300_000)
    assert time.process_time() - started < 20
