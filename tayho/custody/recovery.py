"""Who signed a digest: handed to those who verify what others tell, and hold no key cryptography themselves."""

from __future__ import annotations

from coincurve import PublicKey

from tayho.custody.derivation import address_of

_SIGNATURE_BYTES = 65
_WORD_BYTES = 32
_WORD_END = 1 << 8 * _WORD_BYTES
_GROUP_ORDER = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141
_V = {0: 27, 1: 28, 27: 27, 28: 28}


def recovered(digest: bytes, recovery_bit: int, r: int, s: int) -> bytes:
    """The address of the key that signed the 32 bytes. Raises ValueError where the signature is none."""
    if not (0 <= r < _WORD_END and 0 <= s < _WORD_END):
        raise ValueError("a part of the signature is no 32-byte number")
    signature = r.to_bytes(_WORD_BYTES, "big") + s.to_bytes(_WORD_BYTES, "big") + bytes([recovery_bit])
    return address_of(PublicKey.from_signature_and_message(signature, digest, hasher=None)).value


def lowered(signature: bytes) -> bytes:
    """r, s and v in the one writing that is taken: the lower of the two s (EIP-2), and v as 27 or 28.

    Raises ValueError where it cannot be a signature.
    """
    if len(signature) != _SIGNATURE_BYTES:
        raise ValueError(f"a signature has {_SIGNATURE_BYTES} bytes, r, s and v; this one has {len(signature)}")
    v = _V.get(signature[-1])
    if v is None:
        raise ValueError(f"v must be 27 or 28 (or 0 or 1); it is {signature[-1]}")
    s = int.from_bytes(signature[_WORD_BYTES : 2 * _WORD_BYTES], "big")
    if not 0 < s < _GROUP_ORDER:
        raise ValueError("s is not between 0 and the group order")
    if s > _GROUP_ORDER // 2:
        s, v = _GROUP_ORDER - s, 55 - v
    return signature[:_WORD_BYTES] + s.to_bytes(_WORD_BYTES, "big") + bytes([v])
