"""EIP-1559 transactions as bytes: what is hashed and signed, what is broadcast, and what signed bytes really say.

Written over `rlp` rather than taken from eth-account: that library signs chain id 0 and contract creations when a field
is missing, takes three times as long, and its import of py_ecc raises the interpreter's recursion limit so far that a
deeply nested JSON answer overflows the C stack. The tests hold these bytes against it and against published ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias, cast

import rlp  # pyright: ignore[reportMissingTypeStubs]
from coincurve import PublicKey
from eth_utils.crypto import keccak
from rlp.exceptions import RLPException  # pyright: ignore[reportMissingTypeStubs]

from tayho.custody.derivation import address_of
from tayho.custody.types import SigningRequest, Undecodable
from tayho.kernel.address import ADDRESS_BYTES, Address
from tayho.kernel.opaque import Opaque

Rlp: TypeAlias = "bytes | Sequence[Rlp]"

_TYPE = b"\x02"  # EIP-2718
_UNSIGNED_FIELDS = 9
_SIGNED_FIELDS = 12
_ACCESS_LIST = 8
_WORD_BYTES = 32
# secp256k1's group order, halved: a higher s is the same signature malleated (EIP-2).
_S_MAX = 0x7FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFF5D576E7357A4501DDFE92F46681B20A0


class _Malformed(ValueError):
    pass


def signing_digest(request: SigningRequest) -> bytes:
    """The 32 bytes that the signer signs: Keccak-256 of the type and the nine unsigned fields (EIP-1559)."""
    return _digest(_unsigned(request))


def signed_bytes(request: SigningRequest, signature: bytes) -> Opaque:
    """The transaction as nodes take it. `signature` is 65 bytes: r, s, y parity."""
    r, s = signature[:_WORD_BYTES].lstrip(b"\x00"), signature[_WORD_BYTES : 2 * _WORD_BYTES].lstrip(b"\x00")
    y_parity = signature[2 * _WORD_BYTES :].lstrip(b"\x00")
    return Opaque(_TYPE + _encode([*_unsigned(request), y_parity, r, s]))


def transaction_hash(raw: Opaque) -> bytes:
    """Keccak-256 of the signed bytes: the name every node gives the transaction."""
    return bytes(keccak(raw.reveal()))


def decode(raw: Opaque) -> SigningRequest | Undecodable:
    """The request these bytes carry out, with the signer recovered from the signature rather than believed.

    Bad bytes are an answer and never an error: the frames of a raising decoder hold the signed bytes, and a renderer of
    tracebacks would print them (TX-2).
    """
    try:
        return _decoded(raw.reveal())
    except (RLPException, ValueError, RecursionError) as error:
        # Only a word travels on; the error itself, with its frames, ends here.
        return Undecodable(str(error) if isinstance(error, _Malformed) else type(error).__name__)


def _unsigned(request: SigningRequest) -> list[Rlp]:
    return [
        _minimal(request.chain_id),
        _minimal(request.nonce),
        _minimal(request.max_priority_fee_per_gas_wei),
        _minimal(request.max_fee_per_gas_wei),
        _minimal(request.gas_limit),
        request.to.value,
        _minimal(request.value_wei),
        request.data,
        [[address.value, keys] for address, keys in request.access_list],
    ]


def _decoded(raw: bytes) -> SigningRequest:
    if raw[:1] != _TYPE:
        raise _Malformed("not of type 2")
    fields = _items(cast("Rlp", rlp.decode(raw[1:], strict=True)))  # pyright: ignore[reportUnknownMemberType]
    if len(fields) != _SIGNED_FIELDS:
        raise _Malformed("not twelve fields")
    flat = [_octets(item) for place, item in enumerate(fields) if place != _ACCESS_LIST]
    chain_id, nonce, priority_fee_wei, fee_wei, gas_limit, to, value_wei, data, y_parity, r, s = flat
    if len(to) != ADDRESS_BYTES:
        raise _Malformed("no destination")
    return SigningRequest(
        chain_id=_integer(chain_id),
        signer=_sender(fields[:_UNSIGNED_FIELDS], _integer(y_parity), _integer(r), _integer(s)),
        nonce=_integer(nonce),
        to=Address(to),
        value_wei=_integer(value_wei),
        data=data,
        gas_limit=_integer(gas_limit),
        max_fee_per_gas_wei=_integer(fee_wei),
        max_priority_fee_per_gas_wei=_integer(priority_fee_wei),
        access_list=tuple(_access(item) for item in _items(fields[_ACCESS_LIST])),
    )


def _sender(unsigned: Sequence[Rlp], y_parity: int, r: int, s: int) -> Address:
    if y_parity > 1 or not 0 < s <= _S_MAX:
        raise _Malformed("not a canonical signature")
    signature = r.to_bytes(_WORD_BYTES, "big") + s.to_bytes(_WORD_BYTES, "big") + bytes([y_parity])
    return address_of(PublicKey.from_signature_and_message(signature, _digest(unsigned), hasher=None))


def _access(encoded: Rlp) -> tuple[Address, tuple[bytes, ...]]:
    pair = _items(encoded)
    if len(pair) != 2:
        raise _Malformed("an access list entry that is no pair")
    keys = tuple(_octets(key) for key in _items(pair[1]))
    if any(len(key) != _WORD_BYTES for key in keys):
        raise _Malformed("a storage key that is not 32 bytes")
    return Address(_octets(pair[0])), keys


def _items(encoded: Rlp) -> Sequence[Rlp]:
    if isinstance(encoded, bytes):
        raise _Malformed("bytes where a list belongs")
    return encoded


def _octets(encoded: Rlp) -> bytes:
    if not isinstance(encoded, bytes):
        raise _Malformed("a list where bytes belong")
    return encoded


def _integer(encoded: bytes) -> int:
    if encoded[:1] == b"\x00" or len(encoded) > _WORD_BYTES:
        raise _Malformed("an integer with leading zeros or beyond 256 bits")
    return int.from_bytes(encoded, "big")


def _minimal(integer: int) -> bytes:
    # RLP's integers have no leading zeros, and zero has no bytes at all.
    return integer.to_bytes((integer.bit_length() + 7) // 8, "big")


def _digest(unsigned: Sequence[Rlp]) -> bytes:
    return bytes(keccak(_TYPE + _encode(unsigned)))


def _encode(fields: Sequence[Rlp]) -> bytes:
    return cast("bytes", rlp.encode(fields, infer_serializer=False))  # pyright: ignore[reportUnknownMemberType]
