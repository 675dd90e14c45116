"""A session key in this process: it signs intents in its account's name, and no transaction."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import cast, final

from coincurve import PrivateKey

from tayho.custody.derivation import derived_address
from tayho.custody.errors import SessionKeyRefused
from tayho.custody.key_material import KeyMaterial
from tayho.kernel.address import Address

_DIGEST_BYTES = 32


@final
class LocalSessionKey:
    """Signs what its holder hands in, as it is. Never give it the key of a lane: a digest may be any transaction's."""

    def __init__(self, material: KeyMaterial, address: Address) -> None:
        self._material = material
        self._address = address

    @property
    def address(self) -> Address:
        return self._address

    def sign(self, digest: bytes) -> bytes:
        """r, s (the lower one) and v as 27 or 28; the same for the same digest (RFC 6979). Raises KeyWiped."""
        if len(digest) != _DIGEST_BYTES:
            raise ValueError(f"a digest has {_DIGEST_BYTES} bytes; this one has {len(digest)}")
        with self._material.revealed() as octets:
            key = PrivateKey(cast("bytes", octets))
            signature = key.sign_recoverable(digest, hasher=None)  # pyright: ignore[reportUnknownMemberType]
        return signature[:64] + bytes([signature[64] + 27])

    def __repr__(self) -> str:
        return f"LocalSessionKey({self._address})"


@contextmanager
def open_session_key(octets: bytearray) -> Generator[LocalSessionKey]:
    """The key of these 32 bytes, which are overwritten; its own copy is overwritten at the end.

    Raises SessionKeyRefused.
    """
    with KeyMaterial(octets) as material:
        address = derived_address(material)
        if address is None:
            raise SessionKeyRefused
        yield LocalSessionKey(material, address)
