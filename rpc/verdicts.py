"""What the outcome of one question says about the endpoint that was asked. Pure."""

from __future__ import annotations

from http import HTTPStatus

from rpc.circuit import Fault
from rpc.errors import ChainMismatch, CircuitOpen, DeadlinePassed, EndpointFault, HttpStatus, RpcError, RpcRefused
from rpc.refusals import standing_of

_THROTTLED_STATUSES = frozenset({HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.PAYMENT_REQUIRED})


def fault_in(error: RpcError) -> Fault | None:
    """The fault that a circuit should hear of; None where the endpoint did nothing wrong, or nothing is known.

    A refusal for a used-up limit is a fault that needs company: some providers say it of one expensive question.
    """
    if isinstance(error, RpcRefused):
        return Fault(f"refused: {error.message}") if standing_of(error) == "throttled" else None
    if not isinstance(error, EndpointFault):
        return None
    match error.reason:
        case CircuitOpen() | DeadlinePassed(stage="slot" | "endpoints"):
            return None
        case ChainMismatch():
            return Fault(str(error.reason), opens_at_once=True)
        case HttpStatus(status=status, retry_after_seconds=wait):
            at_once = status in _THROTTLED_STATUSES or bool(wait)
            return Fault(str(error.reason), opens_at_once=at_once, pause_seconds=wait)
        case _:
            return Fault(str(error.reason))


def is_throttled(error: RpcError) -> bool:
    """Whether the endpoint asks for fewer questions: no hedge may be added to them."""
    if isinstance(error, RpcRefused):
        return standing_of(error) == "throttled"
    return (
        isinstance(error, EndpointFault)
        and isinstance(error.reason, HttpStatus)
        and (error.reason.status in _THROTTLED_STATUSES or bool(error.reason.retry_after_seconds))
    )


def speaks_of_health(error: RpcError) -> bool | None:
    """For the score: False for a fault, True for an answer, None for what says neither.

    A node's own trouble in an error's words opens no circuit, as the question may have caused it, but an endpoint that
    fails so, and quickly, must not be ranked first for its speed.
    """
    if isinstance(error, RpcRefused):
        match standing_of(error):
            case "answer":
                return True
            case "missing" | "unserved":
                return None
            case "throttled" | "trouble":
                return False
    return None if fault_in(error) is None else False
