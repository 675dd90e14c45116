"""Bytes that never print: signed transactions between the journal and the wire."""

from __future__ import annotations

from typing import NoReturn


class Opaque:
    """Bytes whose content reaches a log, an error or a table only by calling `reveal` in plain sight.

    Not a vault: it stops accidents (repr, format, pickle, traceback renderers), not an attacker in the process.
    """

    __slots__ = ("_value",)

    def __init__(self, value: bytes) -> None:
        self._value = value

    def reveal(self) -> bytes:
        """The bytes themselves. Only the broadcaster and the seal call this."""
        return self._value

    def __len__(self) -> int:
        return len(self._value)

    def __repr__(self) -> str:
        return f"Opaque({len(self._value)} bytes)"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Opaque) and self._value == other._value

    def __hash__(self) -> int:
        return hash(self._value)

    def __reduce__(self) -> NoReturn:
        raise TypeError("signed bytes are not pickled: they live in the journal, sealed")
