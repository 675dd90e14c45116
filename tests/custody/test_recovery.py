"""Who signed a digest, against another implementation and against what is no signature."""

from __future__ import annotations

import pytest
from eth_utils.crypto import keccak
from hypothesis import given
from hypothesis import strategies as st

from tayho.custody.module import recovered
from tests.custody.oracle import Account

ORDER = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141
KEYS = st.integers(1, ORDER - 1).map(lambda number: number.to_bytes(32, "big"))


def signature(key: bytes, message: bytes) -> tuple[bytes, int, int, int]:
    """A digest with its recovery bit, r and s, by the oracle."""
    digest = bytes(keccak(message))
    made = Account.unsafe_sign_hash(digest, key)
    return digest, made.v - 27, made.r, made.s


@given(KEYS, st.binary(max_size=64))
def test_the_signer_is_recovered(key: bytes, message: bytes) -> None:
    """Goal: the address of whoever signed. Method: any key and message, signed by another implementation."""
    address = bytes.fromhex(Account.from_key(key).address[2:])
    assert recovered(*signature(key, message)) == address


@given(KEYS, st.binary(max_size=64), st.integers(0, 255))
def test_nothing_changed_is_of_the_same_signer(key: bytes, message: bytes, bit: int) -> None:
    """Goal: a signature binds its digest. Method: one bit of the digest, of r or of s turned over, or the other
    recovery bit: another address, or no signature at all."""
    digest, recovery_bit, r, s = signature(key, message)
    address = recovered(digest, recovery_bit, r, s)
    flipped = (int.from_bytes(digest, "big") ^ 1 << bit).to_bytes(32, "big")
    for other in (
        (flipped, recovery_bit, r, s),
        (digest, recovery_bit, r ^ 1 << bit, s),
        (digest, recovery_bit, r, s ^ 1 << bit),
        (digest, 1 - recovery_bit, r, s),
    ):
        try:
            assert recovered(*other) != address
        except ValueError:
            continue


@pytest.mark.parametrize(
    ("recovery_bit", "r", "s"),
    [
        *[(0, 0, 1), (0, 1, 0), (0, 0, 0), (0, ORDER, 1), (0, 1, ORDER), (0, 2**256 - 1, 2**256 - 1)],
        *[(4, 1, 1), (255, 1, 1), (256, 1, 1), (-1, 1, 1), (0, 2**256, 1), (0, 1, 2**256), (0, -1, 1), (0, 1, -1)],
    ],
)
def test_what_is_no_signature_is_refused(recovery_bit: int, r: int, s: int) -> None:
    """Goal: one class of error for all of it, as the proofs expect. Method: numbers at and beyond every bound."""
    with pytest.raises(ValueError):  # noqa: PT011 - whatever the library says
        recovered(bytes(32), recovery_bit, r, s)
