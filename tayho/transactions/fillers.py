"""Fillers: what keeps a lane without a gap where a nonce was given up."""

from __future__ import annotations

from tayho.kernel.address import Address
from tayho.kernel.call_hash import call_hash


def filler_call_hash(chain_id: int, signer: Address) -> bytes:
    """The call hash of a zero-value transfer to oneself: it does nothing and uses up one nonce."""
    return call_hash(chain_id, signer, 0, b"")
