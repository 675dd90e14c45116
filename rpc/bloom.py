"""The bloom filter of events: 2048 bits, three of them set for each address and each topic (Yellow Paper, 4.3.1)."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from eth_utils.crypto import keccak

from rpc.values import Log

_BYTES = 256
_BITS_MASK = 8 * _BYTES - 1


def logs_bloom(logs: Iterable[Log]) -> bytes:
    """The bloom of these events, as a receipt carries it."""
    bits = 0
    for log in logs:
        for word in (log.address, *log.topics):
            bits |= _bits(word)
    return bits.to_bytes(_BYTES, "big")


def joined(blooms: Iterable[bytes]) -> bytes:
    """The bloom over all events of a block, from those of its receipts."""
    bits = 0
    for bloom in blooms:
        bits |= int.from_bytes(bloom, "big")
    return bits.to_bytes(_BYTES, "big")


# Blocks name the same few contracts and events over and over.
@lru_cache(maxsize=4096)
def _bits(word: bytes) -> int:
    digest = bytes(keccak(word))
    places = (int.from_bytes(digest[at : at + 2], "big") & _BITS_MASK for at in (0, 2, 4))
    return sum(1 << place for place in set(places))
