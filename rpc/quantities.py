"""Strict reading and writing of the two hex encodings of Ethereum JSON-RPC.

QUANTITY: `0x`, no leading zero, zero is `0x0`. DATA: `0x` and two digits per byte. Source: execution-apis,
`schemas/base-types.yaml`. Both letter cases are read (some nodes checksum addresses); nothing else is forgiven,
because two readings of one answer would break the comparison of votes (RPC-5).
"""

from __future__ import annotations

import re

_QUANTITY = re.compile(r"0x(0|[1-9a-fA-F][0-9a-fA-F]*)")
_EXCERPT_CHARACTERS = 40


class Unreadable(Exception):
    """A part of an answer is not what the schema says. Never leaves this package: the endpoint makes it a fault."""


def excerpt(value: object) -> str:
    """A short printable picture of a foreign value, for error messages."""
    if isinstance(value, str):
        text = ascii(value[: _EXCERPT_CHARACTERS + 1])
        return text if len(text) <= _EXCERPT_CHARACTERS else text[:_EXCERPT_CHARACTERS] + "…"
    if value is None or isinstance(value, bool):
        return "null" if value is None else str(value).lower()
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "an array"
    return "a number"


def quantity(value: object, bits: int) -> int:
    """Read a QUANTITY of at most `bits` bits. Raises Unreadable."""
    if not isinstance(value, str) or _QUANTITY.fullmatch(value) is None:
        raise Unreadable(f"expected a hex quantity, found {excerpt(value)}")
    # Four bits a digit: the bound on digits comes first, so that a megabyte of digits is never turned into a number.
    if len(value) - 2 > (bits + 3) // 4 or (number := int(value, 16)).bit_length() > bits:
        raise Unreadable(f"the quantity {excerpt(value)} does not fit {bits} bits")
    return number


def data(value: object, length: int | None = None) -> bytes:
    """Read DATA, of exactly `length` bytes where given. Raises Unreadable."""
    content = _hex_content(value)
    if content is None:
        raise Unreadable(f"expected hex data, found {excerpt(value)}")
    if length is not None and len(content) != length:
        raise Unreadable(f"expected {length} bytes of hex data, found {len(content)}")
    return content


def _hex_content(value: object) -> bytes | None:
    if not isinstance(value, str) or not value.startswith("0x"):
        return None
    try:
        content = bytes.fromhex(value[2:])
    except ValueError:
        return None
    # It skips blanks between bytes, which are no digits.
    return content if len(value) == 2 + 2 * len(content) else None


def uint64(value: object) -> int:
    """Block numbers, gas, nonces, indices, timestamps."""
    return quantity(value, 64)


def uint256(value: object) -> int:
    """Amounts of wei, prices per gas, chain ids."""
    return quantity(value, 256)


def hash32(value: object) -> bytes:
    return data(value, 32)


def address20(value: object) -> bytes:
    return data(value, 20)


def bloom256(value: object) -> bytes:
    return data(value, 256)


def as_quantity(number: int) -> str:
    """Write a QUANTITY. Raises ValueError for a negative number: no node reads one."""
    if number < 0:
        raise ValueError(f"a quantity is not negative: {number}")
    return hex(number)


def as_data(content: bytes, length: int | None = None) -> str:
    """Write DATA, of exactly `length` bytes where given. Raises ValueError for another length."""
    if length is not None and len(content) != length:
        raise ValueError(f"expected {length} bytes, got {len(content)}")
    return "0x" + content.hex()
