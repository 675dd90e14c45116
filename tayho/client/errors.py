"""Why an intent was not taken, or not told of: a class each, and EngineRefused itself for a code that is new here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar
from uuid import UUID

from tayho.client.types import IntentProgress, Problem
from tayho.kernel.address import Address


class SignatureUnusable(ValueError):
    """What the key returned is no signature. Nothing was sent."""


class SignatureOfAnother(ValueError):
    """The signature is not of the key that it should be, or not over the digest. Nothing was sent."""

    def __init__(self, found: Address, expected: Address) -> None:
        super().__init__(
            f"the signature is of {found}, not of the session key {expected}: sign the 32 bytes of the digest "
            "as they are, with that key"
        )
        self.found = found
        self.expected = expected


class EngineError(Exception):
    """Base of all that an engine, or its absence, does to a call."""


class EngineUrlRefused(EngineError, ValueError):
    """The address is no http or https URL. Nothing was sent."""


class EngineUnavailable(EngineError):
    """No answer within the call's time, for `reason`. The engine may have the intent: submit the same again.

    `retry_after_seconds` is what the engine asked for, where it did.
    """

    def __init__(self, what: str, seconds: float, reason: str, retry_after_seconds: int | None = None) -> None:
        after = "" if retry_after_seconds is None else f"; it asks to come back in {retry_after_seconds} s"
        super().__init__(f"the engine did not {what} within {seconds:g} s: {reason}{after}")
        self.reason = reason
        self.retry_after_seconds = retry_after_seconds


class AnswerMalformed(EngineError):
    """What answered is no engine, or another version of it."""


class NotFinalInTime(EngineError):
    """The intent goes on; `progress` is what was heard last, None where nothing was."""

    def __init__(self, intent_id: UUID, seconds: float, progress: IntentProgress | None) -> None:
        heard = "nothing was heard of it" if progress is None else f"it is {progress.state}"
        super().__init__(f"intent {intent_id} has no end after {seconds:g} s: {heard}; wait again")
        self.progress = progress


class EngineRefused(EngineError):
    """The engine said no, and would say it again. `problem` is its document."""

    code: ClassVar[str] = ""

    def __init__(self, problem: Problem) -> None:
        told = problem.detail or problem.title or "no reason given"
        request = "" if problem.request_id is None else f" (request {problem.request_id})"
        super().__init__(f"{problem.status} {problem.code or 'without a code'}: {told}{request}")
        self.problem = problem


class IntentMalformed(EngineRefused):
    """A field is missing, of another type, or out of its range."""

    code = "intent-malformed"


class SignatureMalformed(EngineRefused):
    """The signature is no signature of 65 bytes, or of nobody."""

    code = "signature-malformed"


class SignatureMalleable(EngineRefused):
    """The signature's s is in the upper half of the group order: `with_signature` mends it."""

    code = "signature-malleable"


class DeadlinePassed(EngineRefused):
    """The deadline has passed, or is too near to be carried: sign the wish anew with a later one."""

    code = "deadline-passed"


class DeadlineTooFar(EngineRefused):
    """The deadline is further away than the engine keeps an intent: sign the wish anew with a nearer one."""

    code = "deadline-too-far"


class IntentNotPermitted(EngineRefused):
    """The protocol would refuse it now: no session, one that expired or allows less, or an intent that was spent."""

    code = "intent-not-permitted"


class IntentUnknown(EngineRefused):
    """The engine has no intent of that id."""

    code = "intent-unknown"


REFUSALS: Mapping[str, type[EngineRefused]] = {
    refusal.code: refusal
    for refusal in (
        IntentMalformed,
        SignatureMalformed,
        SignatureMalleable,
        DeadlinePassed,
        DeadlineTooFar,
        IntentNotPermitted,
        IntentUnknown,
    )
}


def refusal_of(problem: Problem) -> EngineRefused:
    """The document as its class."""
    return REFUSALS.get(problem.code, EngineRefused)(problem)
