"""Legacy transactions (EIP-155): the published example, strict reading, and the seal around them."""

from __future__ import annotations

from typing import Any

import pytest
import rlp
from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st

from tayho.custody import local_signer
from tayho.custody.encoding import decode, signed_bytes, signing_digest, transaction_hash
from tayho.custody.errors import SignatureMismatch
from tayho.custody.journal_seal import JournalSeal
from tayho.custody.local_signer import LocalSigner
from tayho.custody.types import SigningPolicy, SigningRequest, Undecodable
from tayho.kernel.address import Address
from tayho.kernel.opaque import Opaque
from tests.custody.examples import (
    CHAIN_ID,
    POLICY,
    REQUEST,
    journal_keys,
    legacy_of,
    reservation_of,
    signed_at,
    signer_keys,
)

LEGACY = legacy_of(REQUEST)
SIGNED, BINDING = signed_at(LEGACY.nonce, LEGACY)
RAW = SIGNED.raw.reveal()
GROUP_ORDER = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141
V = 6


def test_the_example_of_eip_155_is_signed_to_the_byte() -> None:
    """Goal: legacy signing is EIP-155's. Method: the key, fields, digest and signed bytes that the EIP prints."""
    keys = signer_keys("46" * 32)
    request = SigningRequest(
        chain_id=1,
        signer=keys.addresses[0],
        nonce=9,
        to=Address(b"\x35" * 20),
        value_wei=10**18,
        data=b"",
        gas_limit=21_000,
        max_fee_per_gas_wei=20 * 10**9,
        max_priority_fee_per_gas_wei=20 * 10**9,
        transaction_type=0,
    )
    assert signing_digest(request).hex() == "daf5a779ae972f972197303d7b574746c7ef83eadac0f2791ad23db92e4c8e53"
    signed = LocalSigner(keys, SigningPolicy(frozenset({1}), 10**12)).sign(request, reservation_of(request))
    assert signed.raw.reveal().hex() == (
        "f86c098504a817c800825208943535353535353535353535353535353535353535880de0b6b3a76400008025a028ef61340bd939bc"
        "2195fe537567866003e1a15d3c71ff63e1590620aa636276a067cbe9d8997f761aecb703304b3800ccf555c9f3dc64214b297fb196"
        "6a3b6d83"
    )
    assert decode(signed.raw) == request


def fields() -> list[Any]:
    return list(rlp.decode(RAW))


def _with(index: int, value: object) -> Opaque:
    changed = fields()
    changed[index] = value
    return Opaque(rlp.encode(changed))


def _number(value: int) -> bytes:
    return value.to_bytes((value.bit_length() + 7) // 8, "big")


MALFORMED: dict[str, Opaque] = {
    "cut short": Opaque(RAW[:-1]),
    "trailing byte": Opaque(RAW + b"\x00"),
    "unsigned": Opaque(rlp.encode(fields()[:6])),
    "one field more": Opaque(rlp.encode([*fields(), b""])),
    "creates a contract": _with(3, b""),
    "destination of 21 bytes": _with(3, bytes(21)),
    "leading zero": _with(0, b"\x00\x07"),
    "integer of 33 bytes": _with(4, b"\x01" * 33),
    "list for data": _with(5, [b"\x01"]),
    "signed for no chain": _with(V, b"\x1b"),
    "v of nothing": _with(V, b""),
    "r of zero": _with(7, b""),
    "s of zero": _with(8, b""),
    "high s": _with(8, _number(GROUP_ORDER - int.from_bytes(fields()[8], "big"))),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_malformed_bytes_are_an_answer_not_an_error(name: str) -> None:
    """Goal: bad bytes never raise, so no frame that holds them is ever shown. Method: one defect each."""
    assert isinstance(decode(MALFORMED[name]), Undecodable)


def test_another_chains_v_is_another_signer() -> None:
    """Goal: the signature binds the chain: no other chain can take the bytes (EIP-155). Method: v of chain 1."""
    v = int.from_bytes(fields()[V], "big")
    moved = decode(_with(V, _number(v - 2 * CHAIN_ID + 2)))
    assert isinstance(moved, SigningRequest)
    assert moved.chain_id == 1
    assert moved.signer != LEGACY.signer


@settings(deadline=None)
@given(st.integers(0, len(RAW) - 1), st.integers(1, 255))
def test_no_changed_byte_goes_unnoticed(position: int, difference: int) -> None:
    """Goal: the signature covers everything. Method: change any one byte; the answer is never the same request."""
    changed = bytearray(RAW)
    changed[position] ^= difference
    assert decode(Opaque(bytes(changed))) != LEGACY


@settings(deadline=None)
@given(st.integers(0xC0, 0xFF), st.binary(max_size=200))
def test_random_lists_are_never_a_transaction(prefix: int, noise: bytes) -> None:
    """Goal: no input raises. Method: random payloads behind every list prefix."""
    assert isinstance(decode(Opaque(bytes([prefix]) + noise)), Undecodable)


def test_a_sealed_legacy_transaction_opens_in_its_row() -> None:
    """Goal: the journal keeps legacy bytes as it keeps others (TX-2). Method: seal and unseal."""
    seal = JournalSeal(journal_keys())
    assert seal.unseal(seal.seal(SIGNED.raw, BINDING), BINDING) == SIGNED.raw
    assert transaction_hash(SIGNED.raw) == BINDING.tx_hash


@pytest.mark.parametrize("asked", [LEGACY, evolve(LEGACY, transaction_type=2)])
def test_bytes_of_another_type_are_thrown_away(asked: SigningRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: the type is part of what was asked. Method: an encoder that signs the same fields as the other type."""
    other = evolve(asked, transaction_type=2 - asked.transaction_type)
    monkeypatch.setattr(local_signer, "signing_digest", lambda _: signing_digest(other))
    monkeypatch.setattr(local_signer, "signed_bytes", lambda _, by: signed_bytes(other, by))
    with pytest.raises(SignatureMismatch) as caught:
        LocalSigner(signer_keys(), POLICY).sign(asked, reservation_of(asked))
    assert caught.value.differs == ("transaction_type",)
