"""A node may repeat in its words what it was sent: signed bytes are taken out of them, whoever writes them (TX-2)."""

from __future__ import annotations

import re

WITHHELD = "[withheld]"
# A hash has 64 digits. What is longer is neither a hash nor an address, whole bytes or the beginning of them.
_HASH_DIGITS = 64
_HEX = re.compile(f"[0-9a-fA-F]{{{_HASH_DIGITS},}}")
# Longer than a hash is in hex with its 0x, which is of the same letters.
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]{67,}={0,2}")


def without_bytes(said: str, raw: bytes) -> str:
    """The words without the bytes: no long hex or base64, and of what is as long as a hash nothing that is in `raw`.

    The two numbers of a signature are as long as a hash, and with them anybody could make the bytes again.
    """
    digits = raw.hex()

    def kept(run: re.Match[str]) -> str:
        found = run[0]
        return WITHHELD if len(found) > _HASH_DIGITS or found.lower() in digits else found

    return _BASE64.sub(WITHHELD, _HEX.sub(kept, said))
