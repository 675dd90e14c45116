"""Key making outside custody."""

import os
import secrets
from uuid import uuid4

SIGNING = secrets.token_bytes(32)  # breaks ARC-2
OTHER = os.urandom(32)  # breaks ARC-2


def fresh() -> None:
    private_key = secrets.token_hex(32)  # breaks ARC-2, breaks ARC-3
    journal_key: str = uuid4().hex  # breaks ARC-3
    encryption_key = secrets.randbits(256)  # breaks ARC-2, breaks ARC-3
    print(private_key, journal_key, encryption_key)
