"""From key to address."""

from __future__ import annotations

from functools import lru_cache
from typing import cast

from coincurve import PublicKey
from eth_utils.crypto import keccak

from tayho.custody.key_material import KeyMaterial
from tayho.kernel.address import ADDRESS_BYTES, Address

_POINTS_MAX = 1_024


def address_of(public: PublicKey) -> Address:
    """The last twenty bytes of Keccak-256 over the uncompressed point without its prefix (Yellow Paper, appendix F)."""
    return _address_at(public.format(compressed=False)[1:])


def derived_address(material: KeyMaterial) -> Address | None:
    """The account the key controls; None when the number is no secp256k1 key (zero, or not below the group order)."""
    with material.revealed() as octets:
        try:
            # libsecp256k1 reads any buffer; the annotation only knows bytes.
            public = PublicKey.from_secret(cast("bytes", octets))
        except ValueError:
            return None
    return address_of(public)


# A process signs with the same few keys all the time, and reads each signature back.
@lru_cache(maxsize=_POINTS_MAX)
def _address_at(point: bytes) -> Address:
    return Address(bytes(keccak(point)[-ADDRESS_BYTES:]))
