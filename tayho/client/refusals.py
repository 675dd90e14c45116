"""The engine's problems, a class for each of its codes. What is new to this client comes as EngineRefused itself."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import ClassVar

from tayho.client.errors import EngineError
from tayho.client.types import Problem


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


class DomainDiffers(EngineRefused):
    """The engine serves another chain or another contract than the client was opened for."""

    code = "domain-differs"


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

    @property
    def reason(self) -> str:
        """The contract's own name for it, as `SessionExpired`; empty where the engine tells none."""
        reason = self.problem.document.get("reason")
        return reason if isinstance(reason, str) else ""


class IntentUnknown(EngineRefused):
    """The engine has no intent of that id."""

    code = "intent-unknown"


class RouteUnknown(EngineRefused):
    """The address is not that of an engine's face, or of one that is older than this client."""

    code = "route-unknown"


class RequestMalformed(EngineRefused):
    """What came to the engine is no HTTP request: something on the way rewrites it."""

    code = "request-malformed"


class JsonMalformed(EngineRefused):
    """What came to the engine is no JSON: something on the way rewrites it."""

    code = "json-malformed"


class BodyTooLarge(EngineRefused):
    """The intent's payload is larger than an intent can be."""

    code = "body-too-large"


class HeadersTooLarge(EngineRefused):
    """Something on the way adds more headers than the engine reads."""

    code = "headers-too-large"


class ContentTypeUnsupported(EngineRefused):
    """Something on the way changes the type of the body."""

    code = "content-type-unsupported"


class MethodNotAllowed(EngineRefused):
    """The route does not take this method: an engine older or newer than this client."""

    code = "method-not-allowed"


class EnginePassing(EngineRefused):
    """Base of what passes. The client asks again by itself; met as the cause of EngineUnavailable."""


class BodyTooSlow(EnginePassing):
    """The body did not arrive in time."""

    code = "body-too-slow"


class SubmissionsLimited(EnginePassing):
    """This client has submitted as much as it may for now."""

    code = "submissions-limited"


class StatusesLimited(EnginePassing):
    """This client has asked as much as it may for now."""

    code = "statuses-limited"


class StreamsLimited(EnginePassing):
    """There are too many open streams of events, of this client or of all."""

    code = "streams-limited"


class LimitsUnavailable(EnginePassing):
    """The engine cannot count requests now, and takes none uncounted."""

    code = "limits-unavailable"


class StoreUnavailable(EnginePassing):
    """The engine can record and read nothing now."""

    code = "store-unavailable"


class ChainUnavailable(EnginePassing):
    """The engine cannot ask the chain now."""

    code = "chain-unavailable"


class OutcomeUnknown(EnginePassing):
    """The intent may or may not have been taken: the same again tells."""

    code = "outcome-unknown"


class Overloaded(EnginePassing):
    """The engine has too much under way."""

    code = "overloaded"


class Draining(EnginePassing):
    """This replica of the engine is about to stop."""

    code = "draining"


class InternalError(EnginePassing):
    """The engine has a defect; its log tells of it under the request's id."""

    code = "internal-error"


def _leaves(base: type[EngineRefused]) -> list[type[EngineRefused]]:
    return [leaf for one in base.__subclasses__() for leaf in (_leaves(one) if one is EnginePassing else [one])]


REFUSALS: Mapping[str, type[EngineRefused]] = MappingProxyType(
    {refusal.code: refusal for refusal in _leaves(EngineRefused)}
)


def refusal_of(problem: Problem) -> EngineRefused:
    """The document as its class."""
    return REFUSALS.get(problem.code, EngineRefused)(problem)
