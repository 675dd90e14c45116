"""Why an intent is not taken, one class each; `code` is the stable word of the problem document."""

from __future__ import annotations

from typing import ClassVar


class IntentRefused(Exception):
    """Base: the intent was not recorded. The text is for the person who signed it."""

    code: ClassVar[str] = "intent-refused"


class IntentMalformed(IntentRefused):
    """A field is missing, of another type, or out of its range."""

    code = "intent-malformed"


class SignatureMalformed(IntentRefused):
    """The signature is no signature of 65 bytes, or of nobody."""

    code = "signature-malformed"


class SignatureMalleable(IntentRefused):
    """The signature's s is in the upper half of the group order: the same signature written twice (EIP-2)."""

    code = "signature-malleable"


class DeadlinePassed(IntentRefused):
    """The intent's deadline has passed, or is too near to be carried."""

    code = "deadline-passed"


class DeadlineTooFar(IntentRefused):
    """The deadline is further away than the engine keeps an intent."""

    code = "deadline-too-far"


class IntentNotPermitted(IntentRefused):
    """The protocol would refuse it now: no session, one that expired or allows less, or an intent that was spent."""

    code = "intent-not-permitted"

    def __init__(self, reason: str) -> None:
        super().__init__(f"the protocol would refuse the intent now: {reason}")
        self.reason = reason


class LineDrifted(Exception):
    """The line and its jobs do not say the same; the whole claim was rolled back."""


class LineWaits(Exception):
    """It could not be found out what the first intent of the line needs: nothing behind it may go before it."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"the line waits, because its first intent could not be simulated: {reason}")
