"""RLP as consensus uses it: bytes and lists, numbers without leading zeros. Over `rlp`, typed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias, cast

import rlp  # pyright: ignore[reportMissingTypeStubs]

Rlp: TypeAlias = "bytes | Sequence[Rlp]"


def encode(item: Rlp) -> bytes:
    return cast("bytes", rlp.encode(item, infer_serializer=False))  # pyright: ignore[reportUnknownMemberType]


def decode(encoded: bytes) -> Rlp:
    """The item of bytes whose hash is already known to be right. Raises `rlp.exceptions.RLPException` for others."""
    return cast("Rlp", rlp.decode(encoded, strict=True))  # pyright: ignore[reportUnknownMemberType]


def integer(number: int) -> bytes:
    """A number as RLP carries it: no leading zeros, and zero has no bytes at all."""
    return number.to_bytes((number.bit_length() + 7) // 8, "big")
