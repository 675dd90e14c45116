"""Identifiers that sort by the time they were made."""

from __future__ import annotations

import secrets
import time
from uuid import UUID

_RANDOM_BITS = 74
_VERSION = 7
_VARIANT = 0b10


def new_id() -> UUID:
    """A version-7 UUID (RFC 9562): 48 bits of milliseconds, then randomness.

    Time order keeps the primary keys' newest pages hot; nothing reads a time back out of one, so a worker's wrong
    clock costs locality and never correctness.
    """
    milliseconds = time.time_ns() // 1_000_000
    random = secrets.randbits(_RANDOM_BITS)
    high, low = random >> 62, random & ((1 << 62) - 1)
    return UUID(int=(milliseconds & ((1 << 48) - 1)) << 80 | _VERSION << 76 | high << 64 | _VARIANT << 62 | low)
