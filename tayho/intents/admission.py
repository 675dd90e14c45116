"""Whether an intent is taken: shape, signature, deadline; pure, the clock is handed in (INT-2)."""

from __future__ import annotations

from attrs import frozen

from tayho.intents.errors import (
    DeadlinePassed,
    DeadlineTooFar,
    IntentMalformed,
    SignatureMalformed,
    SignatureMalleable,
)
from tayho.intents.signing import digest_of
from tayho.intents.types import (
    ACTION_MAX,
    PAYLOAD_BYTES_MAX,
    SIGNATURE_BYTES,
    Intent,
    IntentDomain,
    Recover,
    SignedIntent,
)
from tayho.kernel.address import Address
from tayho.kernel.typed_data import TypedDataRefused

# Half of the group order of secp256k1: the greater of the two s of a signature is refused (EIP-2).
S_MAX = 0x7FFFFFFF_FFFFFFFF_FFFFFFFF_FFFFFFFF_5D576E73_57A4501D_DFE92F46_681B20A0
LEAST_SECONDS = 2
MOST_SECONDS = 30 * 24 * 60 * 60


@frozen
class Examined:
    """An intent that is what it should be: its digest and who signed it."""

    digest: bytes
    session_key: Address


def examine(signed: SignedIntent, domain: IntentDomain, *, recover: Recover) -> Examined:
    """Check everything that needs neither a chain nor a clock, and so is the same for ever.

    Raises IntentMalformed, SignatureMalformed, SignatureMalleable.
    """
    intent = signed.intent
    if not 0 <= intent.action <= ACTION_MAX:
        raise IntentMalformed(f"action must be from 0 to {ACTION_MAX}; it is {intent.action}")
    if len(intent.payload) > PAYLOAD_BYTES_MAX:
        raise IntentMalformed(f"payload may have {PAYLOAD_BYTES_MAX} bytes and has {len(intent.payload)}")
    try:
        digest = digest_of(intent, domain)
    except TypedDataRefused as error:
        raise IntentMalformed(str(error)) from error
    return Examined(digest, _signer(digest, signed.signature, recover))


def require_in_time(intent: Intent, *, now: int) -> None:
    """Check the deadline; `now` is in seconds since 1970. Asked of new intents alone: a client that lost the answer
    must still learn that its intent was taken, or it would sign the same wish again.

    Raises DeadlinePassed, DeadlineTooFar.
    """
    if intent.deadline < now + LEAST_SECONDS:
        raise DeadlinePassed(f"the deadline is {intent.deadline} and it is {now}: sign a later one")
    if intent.deadline > now + MOST_SECONDS:
        raise DeadlineTooFar(f"the deadline is {intent.deadline}, more than 30 days after {now}: sign a nearer one")


def _signer(digest: bytes, signature: bytes, recover: Recover) -> Address:
    if len(signature) != SIGNATURE_BYTES:
        raise SignatureMalformed(f"a signature has {SIGNATURE_BYTES} bytes; this one has {len(signature)}")
    r, s, v = (int.from_bytes(part, "big") for part in (signature[:32], signature[32:64], signature[64:]))
    if s > S_MAX:
        raise SignatureMalleable("s is in the upper half of the group order: use the other of the two (EIP-2)")
    if v not in {27, 28}:
        raise SignatureMalformed(f"v must be 27 or 28; it is {v}")
    try:
        return Address(recover(digest, v - 27, r, s))
    except ValueError as error:
        raise SignatureMalformed("no key can have made this signature") from error
