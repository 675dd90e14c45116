"""Reading signed EIP-1559 transactions back: what do these bytes really say, and who signed them?

Nothing here raises on bad bytes. A frame of a raising decoder would hold the signed bytes as locals, and a renderer of
tracebacks would print them (TX-2); the answer is a value instead.
"""

from __future__ import annotations

from typing import TypeAlias, cast

import rlp  # pyright: ignore[reportMissingTypeStubs]
from attrs import frozen
from coincurve import PublicKey
from eth_utils.crypto import keccak
from rlp.exceptions import RLPException  # pyright: ignore[reportMissingTypeStubs]

from tayho.custody.derivation import address_of
from tayho.custody.types import SigningRequest
from tayho.kernel.address import ADDRESS_BYTES, Address
from tayho.kernel.opaque import Opaque

Rlp: TypeAlias = "bytes | list[Rlp]"

_TYPE = b"\x02"  # EIP-2718 type of EIP-1559
_UNSIGNED_FIELDS = 9
_SIGNED_FIELDS = 12
_ACCESS_LIST = 8
_WORD_BYTES = 32
# secp256k1's group order, halved: a higher s is the same signature malleated (EIP-2).
_S_MAX = 0x7FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFF5D576E7357A4501DDFE92F46681B20A0


@frozen
class Undecodable:
    """The bytes are no signed EIP-1559 transaction with a destination. `why` quotes none of them."""

    why: str


class _Malformed(ValueError):
    pass


def transaction_hash(raw: Opaque) -> bytes:
    """Keccak-256 of the signed bytes: the name every node gives the transaction."""
    return bytes(keccak(raw.reveal()))


def decode(raw: Opaque) -> SigningRequest | Undecodable:
    """The request these bytes carry out, with the signer recovered from the signature rather than believed."""
    try:
        return _decoded(raw.reveal())
    except (RLPException, ValueError, RecursionError) as error:
        # Only the class travels on; the error itself, with its frames, ends here.
        return Undecodable(str(error) if isinstance(error, _Malformed) else type(error).__name__)


def _decoded(raw: bytes) -> SigningRequest:
    if raw[:1] != _TYPE:
        raise _Malformed("not of type 2")
    fields = cast("Rlp", rlp.decode(raw[1:], strict=True))  # pyright: ignore[reportUnknownMemberType]
    if isinstance(fields, bytes) or len(fields) != _SIGNED_FIELDS:
        raise _Malformed("not twelve fields")
    flat = [item for item in fields if isinstance(item, bytes)]
    if len(flat) != _SIGNED_FIELDS - 1 or isinstance(fields[_ACCESS_LIST], bytes):
        raise _Malformed("a list where bytes belong")
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
        access_list=_access_list(fields[_ACCESS_LIST]),
    )


def _integer(encoded: bytes) -> int:
    if encoded[:1] == b"\x00" or len(encoded) > _WORD_BYTES:
        raise _Malformed("an integer with leading zeros or beyond 256 bits")
    return int.from_bytes(encoded, "big")


def _access_list(encoded: Rlp) -> tuple[tuple[Address, tuple[bytes, ...]], ...]:
    return tuple(_access(item) for item in _items(encoded))


def _access(encoded: Rlp) -> tuple[Address, tuple[bytes, ...]]:
    pair = _items(encoded)
    if len(pair) != 2 or not isinstance(pair[0], bytes):
        raise _Malformed("an access list entry that is no pair of address and keys")
    keys = [key for key in _items(pair[1]) if isinstance(key, bytes) and len(key) == _WORD_BYTES]
    if len(keys) != len(pair[1]):
        raise _Malformed("a storage key that is not 32 bytes")
    return Address(pair[0]), tuple(keys)


def _items(encoded: Rlp) -> list[Rlp]:
    if isinstance(encoded, bytes):
        raise _Malformed("bytes where a list belongs")
    return encoded


def _sender(unsigned: list[Rlp], y_parity: int, r: int, s: int) -> Address:
    if y_parity not in (0, 1) or not 0 < s <= _S_MAX:
        raise _Malformed("not a canonical signature")
    digest = keccak(_TYPE + cast("bytes", rlp.encode(unsigned)))  # pyright: ignore[reportUnknownMemberType]
    signature = r.to_bytes(_WORD_BYTES, "big") + s.to_bytes(_WORD_BYTES, "big") + bytes([y_parity])
    public = PublicKey.from_signature_and_message(signature, digest, hasher=None)
    return address_of(public)
