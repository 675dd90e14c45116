"""What goes wrong before an engine, or without one. What an engine refuses stands in `refusals`."""

from __future__ import annotations

from uuid import UUID

from tayho.client.types import IntentProgress
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

    The cause is what was met last: a refusal that passes, such as SubmissionsLimited, or a broken connection.
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
