"""The encoding of EIP-1559 transactions, against eth-account's."""

from __future__ import annotations

from typing import Any

import pytest
import rlp
from hypothesis import given, settings
from hypothesis import strategies as st

from tayho.custody.encoding import decode, transaction_hash
from tayho.custody.types import Undecodable
from tayho.kernel.opaque import Opaque
from tests.custody.examples import REQUEST, signed_at

SIGNED, BINDING = signed_at(REQUEST.nonce)
RAW = SIGNED.raw.reveal()
GROUP_ORDER = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141


def fields() -> list[Any]:
    return list(rlp.decode(RAW[1:]))


def encoded(items: object) -> Opaque:
    return Opaque(b"\x02" + rlp.encode(items))


def test_what_was_signed_is_read_back_whole() -> None:
    """Goal: the decoder loses nothing. Method: the request, access list and signer included, comes back equal."""
    assert decode(SIGNED.raw) == REQUEST
    assert transaction_hash(SIGNED.raw) == BINDING.tx_hash
    assert encoded(fields()) == SIGNED.raw


def _with(index: int, value: object) -> list[Any]:
    changed = fields()
    changed[index] = value
    return changed


MALFORMED: dict[str, Opaque] = {
    "empty": Opaque(b""),
    "type only": Opaque(b"\x02"),
    "legacy": Opaque(RAW[1:]),
    "another type": Opaque(b"\x01" + RAW[1:]),
    "cut short": Opaque(RAW[:-1]),
    "trailing byte": Opaque(RAW + b"\x00"),
    "unsigned": encoded(fields()[:9]),
    "one field more": encoded([*fields(), b""]),
    "not a list": encoded(b"abc"),
    "creates a contract": encoded(_with(5, b"")),
    "destination of 21 bytes": encoded(_with(5, bytes(21))),
    "leading zero": encoded(_with(1, b"\x00\x07")),
    "integer of 33 bytes": encoded(_with(6, b"\x01" * 33)),
    "list for data": encoded(_with(7, [b"\x01"])),
    "bytes for the access list": encoded(_with(8, b"")),
    "access entry not a pair": encoded(_with(8, [[bytes(20)]])),
    "access entry of bytes": encoded(_with(8, [bytes(20)])),
    "access address of 19 bytes": encoded(_with(8, [[bytes(19), []]])),
    "access address a list": encoded(_with(8, [[[], []]])),
    "storage keys of bytes": encoded(_with(8, [[bytes(20), bytes(32)]])),
    "storage key of 31 bytes": encoded(_with(8, [[bytes(20), [bytes(31)]]])),
    "storage key a list": encoded(_with(8, [[bytes(20), [[]]]])),
    "parity 2": encoded(_with(9, b"\x02")),
    "r of zero": encoded(_with(10, b"")),
    "s of zero": encoded(_with(11, b"")),
    "high s": encoded(_with(11, (GROUP_ORDER - int.from_bytes(fields()[11], "big")).to_bytes(32, "big"))),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_malformed_bytes_are_an_answer_not_an_error(name: str) -> None:
    """Goal: bad bytes never raise, so no frame that holds them is ever shown. Method: one defect each."""
    assert isinstance(decode(MALFORMED[name]), Undecodable)


def test_deep_nesting_is_an_answer_too() -> None:
    """Goal: the recursive decoder cannot be blown up. Method: 5,000 lists in each other."""
    nested: bytes = b"\xc0"
    for _ in range(5000):
        nested = rlp.codec.length_prefix(len(nested), 0xC0) + nested
    assert isinstance(decode(Opaque(b"\x02" + nested)), Undecodable)


@settings(deadline=None)
@given(st.binary(max_size=200))
def test_random_bytes_are_never_a_transaction(noise: bytes) -> None:
    """Goal: no input raises. Method: random payloads behind the right type byte."""
    assert isinstance(decode(Opaque(b"\x02" + noise)), Undecodable)


@settings(deadline=None)
@given(st.integers(0, len(RAW) - 1), st.integers(1, 255))
def test_no_changed_byte_goes_unnoticed(position: int, difference: int) -> None:
    """Goal: the signature covers everything. Method: change any one byte; the answer is never the same request."""
    changed = bytearray(RAW)
    changed[position] ^= difference
    assert decode(Opaque(bytes(changed))) != REQUEST
