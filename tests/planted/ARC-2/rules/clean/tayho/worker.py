"""Identifiers and tokens are no keys."""

import secrets
from uuid import uuid4

INSTANCE = secrets.token_hex(8)
idempotency_key = str(uuid4())
execution_token = secrets.token_urlsafe(16)
low_bits = secrets.randbits(62)
