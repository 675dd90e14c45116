"""What a lineage promises to do, as thirty-two bytes."""

from __future__ import annotations

from eth_utils.crypto import keccak

from tayho.kernel.address import Address

_FORMAT = b"tayho.call.v1"


def call_hash(chain_id: int, to: Address, value_wei: int, data: bytes) -> bytes:
    """Keccak-256 over a length-prefixed encoding of the call. Fees, gas limit and nonce are no part of it.

    Every member of a lineage carries the same call hash (I2): a replacement may change the fee, never the effect.
    """
    parts = (_FORMAT, chain_id.to_bytes(32, "big"), to.value, value_wei.to_bytes(32, "big"), data)
    return bytes(keccak(b"".join(len(part).to_bytes(8, "big") + part for part in parts)))
