"""Signing an intent with a session key that stays with its holder. Nothing is sent from here.

A signature that would be refused, or that is somebody else's, is found before anything leaves the process: the digest
is made by the same code as the engine's, and the signer is recovered from what the key returned.
"""

from __future__ import annotations

from typing import Protocol

from tayho.client.errors import SignatureOfAnother, SignatureUnusable
from tayho.custody.module import lowered, recovered
from tayho.intents.signing import digest_of, typed_data_of
from tayho.intents.types import Intent, IntentDomain, SignedIntent
from tayho.kernel.address import Address
from tayho.kernel.typed_data import TypedDataRefused

__all__ = ["SessionKey", "digest_of", "sign_intent", "typed_data_of", "with_signature"]


class SessionKey(Protocol):
    """Whatever can sign for one address: a key in this process (`tayho.custody.module`) or a wallet's."""

    @property
    def address(self) -> Address:
        """Whose signature it is: the key of the session that the account has granted."""
        ...

    def sign(self, digest: bytes) -> bytes:
        """r, s and v over the 32 bytes as they are: hashing or prefixing them again gives another message."""
        ...


def sign_intent(intent: Intent, domain: IntentDomain, key: SessionKey) -> SignedIntent:
    """The intent with the key's signature, checked.

    Keep what it returns until the engine has answered: the same signed intent may be submitted again at any time,
    another one with the same wish is a second wish.

        signed = sign_intent(place_order(account, market, size=3, deadline=deadline), domain, key)

    Raises TypedDataRefused where a field is out of its range, SignatureUnusable, SignatureOfAnother.
    """
    return with_signature(intent, domain, key.sign(digest_of(intent, domain)), signer=key.address)


def with_signature(intent: Intent, domain: IntentDomain, signature: bytes, *, signer: Address) -> SignedIntent:
    """The intent with a signature that was made elsewhere over `digest_of(intent, domain)`, as by a wallet that one
    waits for. Of the two writings of a signature it keeps the one with the lower s, which alone is taken (EIP-2).

    Raises TypedDataRefused, SignatureUnusable, SignatureOfAnother.
    """
    try:
        written = lowered(signature)
        r, s, v = int.from_bytes(written[:32], "big"), int.from_bytes(written[32:64], "big"), written[64]
        found = Address(recovered(digest_of(intent, domain), v - 27, r, s))
    except TypedDataRefused:
        raise
    except ValueError as error:
        raise SignatureUnusable(f"what the key returned is no signature: {error}") from error
    if found != signer:
        raise SignatureOfAnother(found, signer)
    return SignedIntent(intent, written)
