"""Our call of libsecp256k1 against coincurve's own."""

from __future__ import annotations

import pytest
from coincurve import PrivateKey
from hypothesis import given
from hypothesis import strategies as st

from tayho.custody.recoverable import sign_recoverable

ORDER = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141
KEYS = st.integers(1, ORDER - 1).map(lambda number: number.to_bytes(32, "big"))
DIGESTS = st.binary(min_size=32, max_size=32)


@given(DIGESTS, KEYS)
def test_it_signs_as_the_library_does(digest: bytes, key: bytes) -> None:
    """Goal: the same bytes as before, and the key where it was. Method: coincurve's own signature of the same."""
    octets = bytearray(key)
    assert sign_recoverable(digest, octets) == PrivateKey(key).sign_recoverable(digest, hasher=None)
    assert octets == key
    octets[:] = bytes(32)  # Nothing holds on to it.
    octets.clear()


@pytest.mark.parametrize("key", [bytes(32), ORDER.to_bytes(32, "big"), bytes(31), b"\1" * 33], ids=len)
def test_no_key_is_refused(key: bytes) -> None:
    """Goal: no signature of nobody, and no byte read beyond the key. Method: zero, the order, too short, too long."""
    with pytest.raises(ValueError, match="key"):
        sign_recoverable(bytes(32), bytearray(key))


def test_a_digest_of_another_size_is_refused() -> None:
    """Goal: no byte is read beyond the digest. Method: one too few, one too many."""
    for size in (31, 33):
        with pytest.raises(ValueError, match="32 bytes"):
            sign_recoverable(bytes(size), bytearray(b"\1" * 32))
