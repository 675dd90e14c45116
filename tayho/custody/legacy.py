"""Transactions of type 0 as bytes, bound to one chain (EIP-155): for chains whose blocks have no base fee (TX-8)."""

from __future__ import annotations

from collections.abc import Sequence

from eth_utils.crypto import keccak

from tayho.custody import rlp_forms
from tayho.custody.rlp_forms import Malformed, integer, minimal, octets
from tayho.custody.types import Rlp, SigningRequest
from tayho.kernel.address import ADDRESS_BYTES, Address

# An RLP list begins at least so, and no type byte of EIP-2718 reaches it.
LIST_PREFIX_MIN = 0xC0
_SIGNED_FIELDS = 9
_CALL_FIELDS = 6
_V_MIN = 35


def signing_digest(request: SigningRequest) -> bytes:
    """Keccak-256 of the six fields, the chain id and two zeros."""
    return _digest(_call_fields(request), request.chain_id)


def signed_bytes(request: SigningRequest, signature: bytes) -> bytes:
    """The six fields and the signature, whose v names the chain."""
    r, s, y_parity = rlp_forms.signature_words(signature)
    v = _V_MIN + 2 * request.chain_id + y_parity
    return rlp_forms.encode([*_call_fields(request), minimal(v), minimal(r), minimal(s)])


def decoded(raw: bytes) -> SigningRequest:
    """The request that the bytes carry out. Raises Malformed, and what RLP's decoder raises.

    Bytes signed for no chain in particular (v of 27 or 28) are refused: every chain would take them.
    """
    fields = [octets(item) for item in rlp_forms.decoded_items(raw)]
    if len(fields) != _SIGNED_FIELDS:
        raise Malformed("not nine fields")
    nonce, gas_price_wei, gas_limit, to, value_wei, data, v, r, s = fields
    if len(to) != ADDRESS_BYTES:
        raise Malformed("no destination")
    if integer(v) < _V_MIN:
        raise Malformed("signed for no chain")
    chain_id, y_parity = divmod(integer(v) - _V_MIN, 2)
    price_wei = integer(gas_price_wei)
    return SigningRequest(
        chain_id=chain_id,
        signer=rlp_forms.sender(_digest(fields[:_CALL_FIELDS], chain_id), y_parity, integer(r), integer(s)),
        nonce=integer(nonce),
        to=Address(to),
        value_wei=integer(value_wei),
        data=data,
        gas_limit=integer(gas_limit),
        max_fee_per_gas_wei=price_wei,
        max_priority_fee_per_gas_wei=price_wei,
        transaction_type=0,
    )


def _call_fields(request: SigningRequest) -> list[Rlp]:
    return [
        minimal(request.nonce),
        minimal(request.max_fee_per_gas_wei),
        minimal(request.gas_limit),
        request.to.value,
        minimal(request.value_wei),
        request.data,
    ]


def _digest(call_fields: Sequence[Rlp], chain_id: int) -> bytes:
    return bytes(keccak(rlp_forms.encode([*call_fields, minimal(chain_id), b"", b""])))
