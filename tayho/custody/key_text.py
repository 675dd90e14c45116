"""A JSON text of keys, taken apart entry by entry; all are looked at, so that everything wrong is told at once."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import cast

from attrs import field, frozen

from tayho.custody.key_material import KeyMaterial
from tayho.custody.types import KeyFault, KeyProblem

_KEY_DIGITS = 64
_HEX = re.compile(r"0x([0-9a-fA-F]*)")
_WHOLE = "the text"


class EntryRefused(Exception):
    """An entry cannot be used. It ends in `problems_of`: its traceback, and the decoder's behind it, hold the text."""

    def __init__(self, fault: KeyFault, detail: str) -> None:
        self.fault = fault
        self.detail = detail
        super().__init__(fault.value)


@frozen
class KeyEntry:
    """One element of the list or object; `name` is None in a list. People swap name and key: neither is printed."""

    name: str | None = field(repr=False)
    value: object = field(repr=False)


@frozen
class _Object:
    # Pairs, because a dict would drop the first of two entries of one name without a word.
    pairs: tuple[tuple[str, object], ...] = field(repr=False)


def problems_of(text: str, admit: Callable[[KeyEntry], None], *, list_allowed: bool) -> list[KeyProblem]:
    """Hand each entry of the text to `admit`, and collect what it, or the text as a whole, was refused for."""
    try:
        entries = _entries(text, list_allowed=list_allowed)
    except EntryRefused as refused:
        return [KeyProblem(refused.fault, _WHOLE, refused.detail)]
    problems: list[KeyProblem] = []
    for number, entry in enumerate(entries, start=1):
        try:
            admit(entry)
        except EntryRefused as refused:
            problems.append(KeyProblem(refused.fault, f"entry {number}", refused.detail))
    return problems


def read_key(value: object) -> KeyMaterial:
    """Thirty-two bytes, written as 0x and 64 hex digits. Raises EntryRefused."""
    if not isinstance(value, str):
        raise EntryRefused(KeyFault.NOT_TEXT, f"found a JSON {_json_kind(value)}; expected a quoted 0x key")
    hex_key = _HEX.fullmatch(value)
    if hex_key is None:
        raise EntryRefused(KeyFault.NOT_HEX, f"expected 0x and {_KEY_DIGITS} hex digits")
    digits = hex_key.group(1)
    if len(digits) != _KEY_DIGITS:
        raise EntryRefused(KeyFault.WRONG_LENGTH, f"found {len(digits)} hex digits; expected {_KEY_DIGITS}")
    return KeyMaterial(bytearray.fromhex(digits))


def _entries(text: str, *, list_allowed: bool) -> list[KeyEntry]:
    document = _document(text)
    if isinstance(document, _Object):
        entries = [KeyEntry(name, value) for name, value in document.pairs]
    elif list_allowed and isinstance(document, list):
        entries = [KeyEntry(None, value) for value in cast("list[object]", document)]
    else:
        expected = "an object of keys, or a list" if list_allowed else "an object of keys"
        found = _json_kind(document)
        raise EntryRefused(KeyFault.WRONG_SHAPE, f"found a {found}; expected {expected}")
    if not entries:
        raise EntryRefused(KeyFault.EMPTY, "give at least one")
    return entries


def _document(text: str) -> object:
    try:
        return cast("object", json.loads(text, object_pairs_hook=lambda pairs: _Object(tuple(pairs))))
    except json.JSONDecodeError as error:
        detail = f"{error.msg} at line {error.lineno}, column {error.colno}"
        raise EntryRefused(KeyFault.NOT_JSON, detail) from error
    except (ValueError, RecursionError) as error:
        raise EntryRefused(KeyFault.NOT_JSON, "a number or a nesting beyond all measure") from error


def _json_kind(value: object) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int() | float():
            return "number"
        case str():
            return "text"
        case list():
            return "list"
        case _:
            return "object"
