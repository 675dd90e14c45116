"""Signed intents for the tests of the client, and what an engine says of them."""

from __future__ import annotations

import time
from typing import Any
from uuid import UUID

from tayho.client import Address, IntentDomain, SignedIntent, digest_of, sign_intent
from tayho.client.actions import place_order
from tayho.custody.module import LocalSessionKey, open_session_key

DOMAIN = IntentDomain(31337, Address(b"\x70" * 20))
ACCOUNT = Address(b"\xac" * 20)
MARKET = b"\x4d" * 32
ID = UUID("018f0000-0000-7000-8000-000000000001")


def local_key(number: int = 7) -> LocalSessionKey:
    """A session key that is never wiped: the tests end with the process."""
    opened = open_session_key(bytearray(number.to_bytes(32, "big")))
    key = opened.__enter__()
    _OPENED.append(opened)
    return key


# Held, so that no collector closes them.
_OPENED: list[Any] = []


def signed_order(salt: int = 0, *, key: LocalSessionKey | None = None) -> SignedIntent:
    intent = place_order(ACCOUNT, MARKET, size=3, deadline=int(time.time()) + 3_600, salt=salt)
    return sign_intent(intent, DOMAIN, key or local_key())


def taken_document(signed: SignedIntent, *, created: bool = True) -> dict[str, object]:
    digest = digest_of(signed.intent, DOMAIN)
    return {"id": str(ID), "digest": f"0x{digest.hex()}", "state": "pending_batch", "created": created}


def progress_document(state: str, **more: object) -> dict[str, object]:
    times = {"accepted_at": "2026-06-01T12:00:00+00:00", "changed_at": "2026-06-01T12:00:03.5+00:00"}
    told = {
        "account": str(ACCOUNT),
        "action": 0,
        "deadline": "1790000000",
        "final": state == "completed",
        "error": None,
    }
    return {"id": str(ID), "digest": f"0x{bytes(32).hex()}", "state": state, **times, **told, **more}
