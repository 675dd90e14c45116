"""References to keys, and holders that custody made."""

import secrets

from attrs import frozen
from tayho.custody.types import SignerKeys


@frozen
class Settings:
    """Configuration."""

    signer_keys: SignerKeys
    secret_name: str
    private_key_file: str | None
    journal_key_ids: tuple[str, ...]
    signer_key_count: int
    idempotency_key: str
    keys: tuple[str, ...] = ()


def token() -> str:
    """Not a key."""
    return secrets.token_hex(8)
