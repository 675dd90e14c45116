"""Transactions of type 2 (EIP-1559) as bytes: what is hashed and signed, what is broadcast, and what it says."""

from __future__ import annotations

from collections.abc import Sequence

from eth_utils.crypto import keccak

from tayho.custody import rlp_forms
from tayho.custody.rlp_forms import WORD_BYTES, Malformed, integer, items, minimal, octets
from tayho.custody.types import Rlp, SigningRequest
from tayho.kernel.address import ADDRESS_BYTES, Address

TYPE = b"\x02"  # EIP-2718
_UNSIGNED_FIELDS = 9
_SIGNED_FIELDS = 12
_ACCESS_LIST = 8


def signing_digest(request: SigningRequest) -> bytes:
    """Keccak-256 of the type and the nine unsigned fields."""
    return _digest(_unsigned(request))


def signed_bytes(request: SigningRequest, signature: bytes) -> bytes:
    """The type, the unsigned fields and the signature."""
    r, s, y_parity = rlp_forms.signature_words(signature)
    return TYPE + rlp_forms.encode([*_unsigned(request), minimal(y_parity), minimal(r), minimal(s)])


def decoded(raw: bytes) -> SigningRequest:
    """The request that the bytes, type included, carry out. Raises Malformed, and what RLP's decoder raises."""
    fields = rlp_forms.decoded_items(raw[1:])
    if len(fields) != _SIGNED_FIELDS:
        raise Malformed("not twelve fields")
    flat = [octets(item) for place, item in enumerate(fields) if place != _ACCESS_LIST]
    chain_id, nonce, priority_fee_wei, fee_wei, gas_limit, to, value_wei, data, y_parity, r, s = flat
    if len(to) != ADDRESS_BYTES:
        raise Malformed("no destination")
    digest = _digest(fields[:_UNSIGNED_FIELDS])
    return SigningRequest(
        chain_id=integer(chain_id),
        signer=rlp_forms.sender(digest, integer(y_parity), integer(r), integer(s)),
        nonce=integer(nonce),
        to=Address(to),
        value_wei=integer(value_wei),
        data=data,
        gas_limit=integer(gas_limit),
        max_fee_per_gas_wei=integer(fee_wei),
        max_priority_fee_per_gas_wei=integer(priority_fee_wei),
        access_list=tuple(_access(item) for item in items(fields[_ACCESS_LIST])),
        transaction_type=2,
    )


def _unsigned(request: SigningRequest) -> list[Rlp]:
    return [
        minimal(request.chain_id),
        minimal(request.nonce),
        minimal(request.max_priority_fee_per_gas_wei),
        minimal(request.max_fee_per_gas_wei),
        minimal(request.gas_limit),
        request.to.value,
        minimal(request.value_wei),
        request.data,
        [[address.value, keys] for address, keys in request.access_list],
    ]


def _access(encoded: Rlp) -> tuple[Address, tuple[bytes, ...]]:
    pair = items(encoded)
    if len(pair) != 2:
        raise Malformed("an access list entry that is no pair")
    keys = tuple(octets(key) for key in items(pair[1]))
    if any(len(key) != WORD_BYTES for key in keys):
        raise Malformed("a storage key that is not 32 bytes")
    return Address(octets(pair[0])), keys


def _digest(unsigned: Sequence[Rlp]) -> bytes:
    return bytes(keccak(TYPE + rlp_forms.encode(unsigned)))
