"""Keys that nobody had before: for sessions, and for the signers of a throw-away chain."""

from __future__ import annotations

import json
import os
from collections.abc import Generator
from contextlib import contextmanager

from tayho.custody.parsing import parse_signer_keys
from tayho.custody.session_keys import LocalSessionKey, open_session_key
from tayho.kernel.address import Address

_KEY_BYTES = 32


@contextmanager
def fresh_session_key() -> Generator[LocalSessionKey]:
    """A session key from the system's randomness, overwritten at the end: who needs it later makes another session."""
    with open_session_key(bytearray(os.urandom(_KEY_BYTES))) as key:
        yield key


def fresh_pool(signers: int) -> tuple[tuple[Address, ...], str]:
    """So many new signers: their addresses, and the text that SIGNER_KEYS takes, which holds their keys in the clear.

    For chains that end with the program.
    """
    told = json.dumps([f"0x{os.urandom(_KEY_BYTES).hex()}" for _ in range(signers)])
    keys = parse_signer_keys(told)
    keys.wipe()
    return keys.addresses, told
