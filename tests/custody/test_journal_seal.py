"""The seal of the journal: no row opens but its own."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tayho.custody.encoding import transaction_hash
from tayho.custody.errors import SealBroken, SealFault, UnknownKeyId
from tayho.custody.journal_seal import JournalSeal, _associated_data  # pyright: ignore[reportPrivateUsage]
from tayho.custody.types import SealBinding
from tayho.kernel.address import Address
from tayho.kernel.opaque import Opaque
from tests.custody.examples import JOURNAL_HEX, OTHER_SIGNER, journal_keys, rendered, shows, signed_at

SEAL = JournalSeal(journal_keys())
SIGNED, ROW = signed_at(7)
SEALED = SEAL.seal(SIGNED.raw, ROW)
OTHER_SIGNED, OTHER_ROW = signed_at(8)
OTHER_SEALED = SEAL.seal(OTHER_SIGNED.raw, OTHER_ROW)


def broken(sealed: Any, row: SealBinding, by: JournalSeal = SEAL) -> SealBroken:
    with pytest.raises(SealBroken) as caught:
        by.unseal(sealed, row)
    return caught.value


def test_a_row_opens_to_the_very_bytes_sealed_in_it() -> None:
    """Goal: what is rebroadcast is what was signed. Method: seal and unseal; nothing of it stands in the ciphertext."""
    assert SEAL.unseal(SEALED, ROW) == SIGNED.raw
    assert SEALED.key_id == "2026-02"
    assert len(SEALED.ciphertext) == len(SIGNED.raw) + 16
    assert SIGNED.raw.reveal()[:16] not in SEALED.ciphertext


@pytest.mark.parametrize(
    "change",
    [
        {"chain_id": 1},
        {"signer": OTHER_SIGNER},
        {"nonce": 8},
        {"call_hash": bytes(32)},
        {"tx_hash": bytes(32)},
        {"tx_hash": OTHER_ROW.tx_hash},
    ],
)
def test_a_seal_opens_in_no_other_row(change: dict[str, Any]) -> None:
    """Goal: the row is part of the seal (TX-2). Method: change each field of the row it stands in."""
    assert broken(SEALED, evolve(ROW, **change)).fault is SealFault.NOT_AUTHENTIC


def test_rows_cannot_exchange_their_ciphertexts() -> None:
    """Goal: a swap inside the table is caught. Method: every mixture of two rows' columns, both ways."""
    for ours, theirs, row in ((SEALED, OTHER_SEALED, ROW), (OTHER_SEALED, SEALED, OTHER_ROW)):
        whole = evolve(ours, key_id=theirs.key_id, cipher_nonce=theirs.cipher_nonce, ciphertext=theirs.ciphertext)
        for mixed in (
            whole,
            evolve(ours, cipher_nonce=theirs.cipher_nonce),
            evolve(ours, ciphertext=theirs.ciphertext),
            evolve(ours, ciphertext=ours.ciphertext[:-16] + theirs.ciphertext[-16:]),
        ):
            error = broken(mixed, row)
            assert error.fault is SealFault.NOT_AUTHENTIC
            assert f"nonce {row.nonce}" in str(error)


@settings(deadline=None)
@given(st.integers(0, len(SEALED.ciphertext) + 11), st.integers(1, 255))
def test_no_changed_byte_opens(position: int, difference: int) -> None:
    """Goal: the seal covers nonce, ciphertext and tag. Method: change any one byte of them."""
    octets = bytearray(SEALED.cipher_nonce + SEALED.ciphertext)
    octets[position] ^= difference
    changed = evolve(SEALED, cipher_nonce=bytes(octets[:12]), ciphertext=bytes(octets[12:]))
    assert broken(changed, ROW).fault is SealFault.NOT_AUTHENTIC


@pytest.mark.parametrize(
    "change",
    [
        {"cipher_nonce": b""},
        {"cipher_nonce": SEALED.cipher_nonce[:-1]},
        {"cipher_nonce": SEALED.cipher_nonce + b"\x00"},
        {"ciphertext": b""},
        {"ciphertext": SEALED.ciphertext[-16:]},
    ],
)
def test_impossible_lengths_are_told_apart(change: dict[str, Any]) -> None:
    """Goal: a truncated column is named as such. Method: lengths that no seal has."""
    assert broken(evolve(SEALED, **change), ROW).fault is SealFault.MALFORMED


def test_a_changed_key_id_does_not_open() -> None:
    """Goal: the key id is bound too. Method: name the other known key; then, one that nobody holds."""
    assert broken(evolve(SEALED, key_id="2026-01"), ROW).fault is SealFault.NOT_AUTHENTIC
    with pytest.raises(UnknownKeyId, match="2025-12"):
        SEAL.unseal(evolve(SEALED, key_id="2025-12"), ROW)


def test_old_rows_open_after_the_active_key_has_changed() -> None:
    """Goal: rotation strands no row. Method: seal under the old id as active, open with the new one active."""
    before, after = JournalSeal(journal_keys("2026-01")), JournalSeal(journal_keys("2026-02"))
    old = before.seal(SIGNED.raw, ROW)
    assert (old.key_id, after.seal(SIGNED.raw, ROW).key_id) == ("2026-01", "2026-02")
    assert after.unseal(old, ROW) == SIGNED.raw


@pytest.mark.parametrize(
    ("change", "differs"),
    [
        ({"chain_id": 1}, ("chain_id",)),
        ({"signer": OTHER_SIGNER}, ("signer",)),
        ({"nonce": 8}, ("nonce",)),
        ({"call_hash": bytes(32)}, ("call",)),
        ({"nonce": 8, "signer": OTHER_SIGNER}, ("signer", "nonce")),
    ],
)
def test_a_proper_seal_over_a_wrong_row_is_caught(change: dict[str, Any], differs: tuple[str, ...]) -> None:
    """Goal: a bug or thief that can seal still cannot pass another transaction off. Method: seal for the wrong row."""
    row = evolve(ROW, **change)
    error = broken(SEAL.seal(SIGNED.raw, row), row)
    assert (error.fault, error.differs) == (SealFault.ROW_DIFFERS, differs)


def test_the_opened_bytes_must_have_the_rows_hash() -> None:
    """Goal: the recorded hash is the broadcast one. Method: seal other bytes under it; then, no transaction at all."""
    assert broken(SEAL.seal(OTHER_SIGNED.raw, ROW), ROW).fault is SealFault.HASH_DIFFERS
    noise = Opaque(b"\x02not a transaction")
    row = evolve(ROW, tx_hash=transaction_hash(noise))
    assert broken(SEAL.seal(noise, row), row).fault is SealFault.UNDECODABLE


def test_ten_thousand_seals_share_no_nonce() -> None:
    """Goal: GCM's one deadly sin, a nonce used twice, does not happen. Method: 10,000 seals, all different."""
    short = Opaque(b"\x02")
    sealed = [SEAL.seal(short, ROW) for _ in range(10_000)]
    assert len({one.cipher_nonce for one in sealed}) == 10_000
    assert {len(one.cipher_nonce) for one in sealed} == {12}


def test_a_restored_database_reseals_under_fresh_nonces() -> None:
    """Goal: nonces come from no counter that a restore could wind back. Method: equal inputs, another ring."""
    again = JournalSeal(journal_keys()).seal(SIGNED.raw, ROW)
    assert again.cipher_nonce != SEALED.cipher_nonce
    assert again.ciphertext != SEALED.ciphertext


BINDINGS = st.builds(
    SealBinding,
    chain_id=st.integers(0, 2**256 - 1),
    signer=st.binary(min_size=20, max_size=20).map(Address),
    nonce=st.integers(0, 2**64 - 1),
    call_hash=st.binary(max_size=34),
    tx_hash=st.binary(max_size=34),
)


@settings(deadline=None)
@given(st.tuples(st.text("ab", max_size=3), BINDINGS), st.tuples(st.text("ab", max_size=3), BINDINGS))
def test_no_two_rows_spell_the_same_associated_data(
    one: tuple[str, SealBinding], other: tuple[str, SealBinding]
) -> None:
    """Goal: borders between fields cannot move. Method: different rows, also of impossible lengths, never coincide."""
    assume(one != other)
    assert _associated_data(*one) != _associated_data(*other)
    row = one[1]
    moved = evolve(row, call_hash=row.call_hash + row.tx_hash[:1], tx_hash=row.tx_hash[1:])
    assert moved == row or _associated_data(one[0], moved) != _associated_data(one[0], row)


def test_no_error_shows_what_was_sealed_or_the_key() -> None:
    """Goal: plaintext and key stay out of errors (TX-2). Method: every fault, rendered with all locals."""
    row = evolve(ROW, nonce=8)
    errors = [
        broken(SEALED, row),
        broken(evolve(SEALED, ciphertext=b""), ROW),
        broken(SEAL.seal(SIGNED.raw, row), row),
        broken(SEAL.seal(OTHER_SIGNED.raw, ROW), ROW),
    ]
    signature = SIGNED.raw.reveal()[-64:-32]
    for error in errors:
        assert error.__context__ is None
        text = rendered(error)
        assert not shows(text, signature)
        assert not shows(text, OTHER_SIGNED.raw.reveal()[-64:-32])
        assert not shows(text, bytes.fromhex(JOURNAL_HEX))
        assert not shows(text + repr(SEALED), SEALED.ciphertext)
