"""Who signed a digest: handed to those who verify what others tell, and hold no key cryptography themselves."""

from __future__ import annotations

from coincurve import PublicKey

from tayho.custody.derivation import address_of

_WORD_BYTES = 32
_WORD_END = 1 << 8 * _WORD_BYTES


def recovered(digest: bytes, recovery_bit: int, r: int, s: int) -> bytes:
    """The address of the key that signed the 32 bytes. Raises ValueError where the signature is none."""
    if not (0 <= r < _WORD_END and 0 <= s < _WORD_END):
        raise ValueError("a part of the signature is no 32-byte number")
    signature = r.to_bytes(_WORD_BYTES, "big") + s.to_bytes(_WORD_BYTES, "big") + bytes([recovery_bit])
    return address_of(PublicKey.from_signature_and_message(signature, digest, hasher=None)).value
