"""One recoverable ECDSA signature over secp256k1, by libsecp256k1 itself.

coincurve's own key object derives two public keys, at more cost than the signature, and keeps a copy of the secret that
cannot be overwritten. Here the library reads the key where it is.
"""

from __future__ import annotations

from typing import Any

from coincurve import ecdsa, keys
from coincurve.context import GLOBAL_CONTEXT

DIGEST_BYTES = 32
_KEY_BYTES = 32

# cffi's objects have no types.
_keys: Any = keys
_ecdsa: Any = ecdsa
_context: Any = GLOBAL_CONTEXT


def sign_recoverable(digest: bytes, octets: bytearray) -> bytes:
    """r, s and the recovery id, 65 bytes: deterministic (RFC 6979), and s in the lower half (EIP-2).

    Raises ValueError where the digest has not 32 bytes or the octets are no key.
    """
    # The library reads 32 bytes from either, however many there are.
    if len(digest) != DIGEST_BYTES or len(octets) != _KEY_BYTES:
        raise ValueError("a digest and a key have 32 bytes each")
    ffi, lib = _keys.ffi, _keys.lib
    signature = ffi.new("secp256k1_ecdsa_recoverable_signature *")
    with ffi.from_buffer("unsigned char[]", octets) as key:
        signed = lib.secp256k1_ecdsa_sign_recoverable(_context.ctx, signature, digest, key, ffi.NULL, ffi.NULL)
    if not signed:
        raise ValueError("the octets are no key of the curve")
    return bytes(_ecdsa.serialize_recoverable(signature))
