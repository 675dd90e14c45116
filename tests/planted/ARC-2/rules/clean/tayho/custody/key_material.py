"""Custody may draw keys."""

import secrets


class KeyMaterial:
    """Thirty-two bytes that never print."""

    def __init__(self) -> None:
        self._bytes = secrets.token_bytes(32)
