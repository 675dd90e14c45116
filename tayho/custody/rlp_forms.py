"""The forms that transactions are encoded in, read strictly: what is not canonical is refused, never repaired."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import rlp  # pyright: ignore[reportMissingTypeStubs]
from coincurve import PublicKey

from tayho.custody.derivation import address_of
from tayho.custody.types import Rlp
from tayho.kernel.address import Address

WORD_BYTES = 32
# secp256k1's group order, halved: a higher s is the same signature malleated (EIP-2).
_S_MAX = 0x7FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFF5D576E7357A4501DDFE92F46681B20A0

_STRING, _LIST = 0x80, 0xC0
# Up to so many bytes the length is in the first byte.
_SHORT_MAX = 55


class Malformed(ValueError):
    """The bytes are not what they should be. Its text quotes none of them."""


def encode(encoded: Rlp) -> bytes:
    """RLP (Yellow Paper, appendix B), byte-equal to the library's by test.

    Signing is on the hot path, and the library looks through its serializers for every field.
    """
    if isinstance(encoded, bytes):
        if len(encoded) == 1 and encoded[0] < _STRING:
            return encoded
        return _headed(_STRING, encoded)
    return _headed(_LIST, b"".join([encode(item) for item in encoded]))


def _headed(offset: int, payload: bytes) -> bytes:
    if len(payload) <= _SHORT_MAX:
        return bytes([offset + len(payload)]) + payload
    length = minimal(len(payload))
    return bytes([offset + _SHORT_MAX + len(length)]) + length + payload


def decoded_items(encoded: bytes) -> Sequence[Rlp]:
    """The list that the bytes are, whole. Raises Malformed, RLPException, ValueError, RecursionError."""
    return items(cast("Rlp", rlp.decode(encoded, strict=True)))  # pyright: ignore[reportUnknownMemberType]


def items(encoded: Rlp) -> Sequence[Rlp]:
    if isinstance(encoded, bytes):
        raise Malformed("bytes where a list belongs")
    return encoded


def octets(encoded: Rlp) -> bytes:
    if not isinstance(encoded, bytes):
        raise Malformed("a list where bytes belong")
    return encoded


def integer(encoded: bytes) -> int:
    if encoded[:1] == b"\x00" or len(encoded) > WORD_BYTES:
        raise Malformed("an integer with leading zeros or beyond 256 bits")
    return int.from_bytes(encoded, "big")


def minimal(number: int) -> bytes:
    """RLP's integers have no leading zeros, and zero has no bytes at all."""
    return number.to_bytes((number.bit_length() + 7) // 8, "big")


def signature_words(signature: bytes) -> tuple[int, int, int]:
    """r, s and y parity of a signature of 65 bytes."""
    r, s = signature[:WORD_BYTES], signature[WORD_BYTES : 2 * WORD_BYTES]
    return int.from_bytes(r, "big"), int.from_bytes(s, "big"), signature[2 * WORD_BYTES]


def sender(digest: bytes, y_parity: int, r: int, s: int) -> Address:
    """Who signed the digest. Raises Malformed for a signature that nodes refuse."""
    if not 0 <= y_parity <= 1 or not 0 < s <= _S_MAX:
        raise Malformed("not a canonical signature")
    signature = r.to_bytes(WORD_BYTES, "big") + s.to_bytes(WORD_BYTES, "big") + bytes([y_parity])
    return address_of(PublicKey.from_signature_and_message(signature, digest, hasher=None))
