"""The client of an engine: sign an intent, submit it, hear what becomes of it. See docs/client.md."""

from tayho.client.engine import EngineClient
from tayho.client.errors import (
    AnswerMalformed,
    EngineError,
    EngineUnavailable,
    EngineUrlRefused,
    NotFinalInTime,
    SignatureOfAnother,
    SignatureUnusable,
)
from tayho.client.refusals import (
    DeadlinePassed,
    DeadlineTooFar,
    DomainDiffers,
    EngineRefused,
    IntentMalformed,
    IntentNotPermitted,
    IntentUnknown,
    SignatureMalformed,
    SignatureMalleable,
)
from tayho.client.signing import SessionKey, digest_of, sign_intent, typed_data_of, with_signature
from tayho.client.types import IntentProgress, PlaceInBatch, Problem, Taken
from tayho.intents.types import Intent, IntentDomain, SignedIntent
from tayho.kernel.address import Address

__all__ = [
    "Address",
    "AnswerMalformed",
    "DeadlinePassed",
    "DeadlineTooFar",
    "DomainDiffers",
    "EngineClient",
    "EngineError",
    "EngineRefused",
    "EngineUnavailable",
    "EngineUrlRefused",
    "Intent",
    "IntentDomain",
    "IntentMalformed",
    "IntentNotPermitted",
    "IntentProgress",
    "IntentUnknown",
    "NotFinalInTime",
    "PlaceInBatch",
    "Problem",
    "SessionKey",
    "SignatureMalformed",
    "SignatureMalleable",
    "SignatureOfAnother",
    "SignatureUnusable",
    "SignedIntent",
    "Taken",
    "digest_of",
    "sign_intent",
    "typed_data_of",
    "with_signature",
]
