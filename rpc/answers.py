"""From an HTTP answer to a JSON-RPC answer, and from that to a value or a typed refusal. Pure."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import TypeVar

from rpc.envelopes import Answer, Refusal
from rpc.errors import HttpStatus, Reverted, RpcRefused
from rpc.foreign_text import printable
from rpc.json_text import parse_json
from rpc.quantities import Unreadable
from rpc.reads import Call
from rpc.retry_after import retry_after_seconds
from rpc.reverts import revert_in, revert_reason
from rpc.transport import HTTP_OK, ExchangeFailed, HttpAnswer
from rpc.urls import EndpointUrl

R = TypeVar("R")
T = TypeVar("T")

_MESSAGE_CHARACTERS_MAX = 1000

# Statuses that some nodes put on top of a proper JSON-RPC error about the request (chainlink PR#12870). 401, 403, 429
# and 5xx are about the endpoint, whatever their body says (RPC-4).
_STATUSES_WITH_ANSWER = frozenset({400, 404, 422})


def answer_in(http: HttpAnswer, read: Callable[[object], R], now: datetime) -> R | Refusal:
    """What `read` finds in the body. Raises Unreadable, or ExchangeFailed with the status where that is the answer."""
    if http.status == HTTP_OK:
        return read(parse_json(http.body))
    refusal = _refusal_in(http, read) if http.status in _STATUSES_WITH_ANSWER else None
    if refusal is None:
        raise ExchangeFailed(HttpStatus(http.status, retry_after_seconds(http.retry_after, now)))
    return refusal


def _refusal_in(http: HttpAnswer, read: Callable[[object], object]) -> Refusal | None:
    """The JSON-RPC error under a bad status; a result there is not believed."""
    try:
        answer = read(parse_json(http.body))
    except Unreadable:
        return None
    return answer if isinstance(answer, Refusal) else None


def value_of(call: Call[T], answer: Answer, url: EndpointUrl) -> T:
    """The value of an answer. Raises RpcRefused or Reverted for a refusal, Unreadable for a value of another shape."""
    if isinstance(answer, Refusal):
        raise refused(call.method, answer, url)
    return call.parse(answer.value)


def refused(method: str, refusal: Refusal, url: EndpointUrl) -> RpcRefused:
    """The exception for a refusal, whose text is fit to be logged."""
    message = printable(url.redact(refusal.message), _MESSAGE_CHARACTERS_MAX)
    revert = revert_in(refusal.code, refusal.message, refusal.data)
    if revert is None:
        return RpcRefused(refusal.code, message, refusal.data, endpoint=url.shown, method=method)
    reason = revert_reason(revert.data)
    return Reverted(
        refusal.code,
        message,
        endpoint=url.shown,
        method=method,
        data=revert.data,
        reason=None if reason is None else printable(reason, _MESSAGE_CHARACTERS_MAX),
    )
