"""The bloom filter of events: 2048 bits, three of them set for each address and each topic (Yellow Paper, 4.3.1)."""

from __future__ import annotations

from collections.abc import Iterable

from eth_utils.crypto import keccak

from rpc.values import Log

_BYTES = 256
_BITS_MASK = 8 * _BYTES - 1


def logs_bloom(logs: Iterable[Log]) -> bytes:
    """The bloom of these events, as a receipt carries it; over all events of a block, as its header does."""
    bits = 0
    # Tokens repeat the same few addresses and topics all through a block: each is hashed once.
    for word in {word for log in logs for word in (log.address, *log.topics)}:
        digest = bytes(keccak(word))
        for at in (0, 2, 4):
            bits |= 1 << (int.from_bytes(digest[at : at + 2], "big") & _BITS_MASK)
    return bits.to_bytes(_BYTES, "big")
