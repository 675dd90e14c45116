"""Which names hide their value."""

from __future__ import annotations

import pytest

from tayho.observability.masking import is_secret, shown_text


@pytest.mark.parametrize(
    "name",
    ["password", "DATABASE_PASSWORD", "signer_keys", "private_key", "api-key", "Authorization", "seed", "raw"],
)
def test_a_name_of_a_secret_hides(name):
    """Goal: the usual names are known, however written. Method: a list of them."""
    assert is_secret(name)


@pytest.mark.parametrize(
    "name",
    ["key_id", "idempotency_key", "token_count", "signer", "signer_address", "event", "", "tx_hash", "journal", "keys"],
)
def test_a_name_about_something_else_shows(name):
    """Goal: what an operator needs stays readable. Method: the names that our own lines carry."""
    assert not is_secret(name)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("at https://user:p@ss/w@host/x now", "at https://***@host/x now"),
        ("postgres://u:p@h1,h2/db", "postgres://***@h1,h2/db"),
        ("https://host/path", "https://host/path"),
        ("mail a@b", "mail a@b"),
        ("0x" + "ab" * 32, "0x" + "ab" * 32),
        ("0x" + "ab" * 100, "0x…(100 bytes)"),
    ],
)
def test_texts_lose_credentials_and_signed_bytes_only(text, shown):
    """Goal: foreign messages are safe and still readable. Method: texts with and without what is hidden."""
    assert shown_text(text) == shown
