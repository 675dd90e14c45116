"""A body of bytes into plain Python values, or Unreadable; nothing a hostile body can do escapes as another error."""

from __future__ import annotations

import json
import re
from decimal import Decimal
from itertools import accumulate
from typing import NoReturn

from rpc.quantities import Unreadable

DEPTH_MAX = 32
"""Deepest nesting read. The deepest answer we ask for, a block of logs, has six levels."""

_STRING = re.compile(rb'"(?:[^"\\]++|\\.?)*+"?', re.DOTALL)
_NOT_A_BRACKET = bytes(set(range(256)) - set(b"[]{}"))
_ONE_KIND = bytes.maketrans(b"{}", b"[]")
_OPENING = b"["[0]


def parse_json(body: bytes) -> object:
    """Parse JSON strictly: UTF-8, no NaN, no member twice in one object, at most DEPTH_MAX deep.

    Fractions become Decimal, so that no float ever exists (money and gas are exact). Raises Unreadable.
    """
    if not body.strip():
        raise Unreadable("the body is empty")
    if body.lstrip()[:1] == b"<":
        raise Unreadable("the body is HTML or XML, not JSON")
    if _deeper_than(DEPTH_MAX, body):
        raise Unreadable(f"the JSON is nested more than {DEPTH_MAX} deep")
    try:
        return _DECODER.decode(body.decode("utf-8"))
    # ValueError: not UTF-8, not JSON, or an integer of thousands of digits; ArithmeticError: an absurd exponent.
    except (ValueError, ArithmeticError) as error:
        raise Unreadable("the body is not valid JSON") from error


def _deeper_than(depth_max: int, body: bytes) -> bool:
    """Whether brackets nest deeper than `depth_max`, before the recursive parser sees them."""
    if body.count(b"[") + body.count(b"{") <= depth_max:
        return False
    brackets = _without_strings(body).translate(_ONE_KIND, _NOT_A_BRACKET)
    # Each round takes the innermost pairs out, all at once: what is balanced and no deeper ends as nothing.
    left = brackets
    for _ in range(depth_max):
        if not left:
            return False
        left = left.replace(b"[]", b"")
    return bool(left) and _depth_of(brackets) > depth_max


def _without_strings(body: bytes) -> bytes:
    if b"\\" in body:
        return _STRING.sub(b"", body)
    # With no escapes, every other piece between quotes is a string.
    return b"".join(body.split(b'"')[::2])


def _depth_of(brackets: bytes) -> int:
    return max(accumulate(1 if bracket == _OPENING else -1 for bracket in brackets))


def _object(members: list[tuple[str, object]]) -> dict[str, object]:
    """Refuse a member given twice: readers differ in which one counts, so a liar could show each another value."""
    unique = dict(members)
    if len(unique) != len(members):
        raise Unreadable(f"a JSON object has {len(members) - len(unique)} members given twice")
    return unique


def _constant(name: str) -> NoReturn:
    raise Unreadable(f"{name} is not JSON")


_DECODER = json.JSONDecoder(object_pairs_hook=_object, parse_float=Decimal, parse_constant=_constant)
