"""Why a request was refused: one code each, which never changes its meaning. The documents are made of this table."""

from __future__ import annotations

from http import HTTPStatus

from tayho.api.problems import LARGE_HEADERS, MALFORMED_REQUEST, Code

_BAD, _LARGE = HTTPStatus.BAD_REQUEST, HTTPStatus.REQUEST_ENTITY_TOO_LARGE
_AWAY, _REFUSED, _MANY = HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.UNPROCESSABLE_ENTITY, HTTPStatus.TOO_MANY_REQUESTS

MALFORMED_JSON = Code("json-malformed", _BAD, "The body is no JSON object")
SLOW_BODY = Code("body-too-slow", HTTPStatus.REQUEST_TIMEOUT, "The body did not arrive in time")
LARGE_BODY = Code("body-too-large", _LARGE, "The body is larger than an intent can be")
OTHER_CONTENT = Code("content-type-unsupported", HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "Only application/json is read")

MALFORMED_INTENT = Code("intent-malformed", _REFUSED, "A field of the intent is missing or out of its range")
OTHER_DOMAIN = Code("domain-differs", _REFUSED, "The intent is for another chain or another contract")
MALFORMED_SIGNATURE = Code("signature-malformed", _REFUSED, "The signature is none")
MALLEABLE_SIGNATURE = Code("signature-malleable", _REFUSED, "The signature is the greater of the two (EIP-2)")
PASSED_DEADLINE = Code("deadline-passed", _REFUSED, "The deadline has passed or is too near")
FAR_DEADLINE = Code("deadline-too-far", _REFUSED, "The deadline is too far away")
NOT_PERMITTED = Code("intent-not-permitted", HTTPStatus.FORBIDDEN, "The protocol would refuse the intent now")

UNKNOWN_ROUTE = Code("route-unknown", HTTPStatus.NOT_FOUND, "There is no such route")
UNKNOWN_INTENT = Code("intent-unknown", HTTPStatus.NOT_FOUND, "There is no such intent")
OTHER_METHOD = Code("method-not-allowed", HTTPStatus.METHOD_NOT_ALLOWED, "The route does not take this method")

MANY_SUBMISSIONS = Code("submissions-limited", _MANY, "Too many submissions of one client")
MANY_STATUSES = Code("statuses-limited", _MANY, "Too many questions of one client")
MANY_STREAMS = Code("streams-limited", _MANY, "Too many open streams")

NO_LIMITS = Code("limits-unavailable", _AWAY, "Requests cannot be counted now, and are not taken uncounted")
NO_STORE = Code("store-unavailable", _AWAY, "Nothing can be recorded or read now")
NO_CHAIN = Code("chain-unavailable", _AWAY, "The chain cannot be asked now")
UNKNOWN_OUTCOME = Code("outcome-unknown", _AWAY, "The intent may or may not have been taken: submit it again")
BUSY = Code("overloaded", _AWAY, "Too much is under way")
DRAINING = Code("draining", _AWAY, "This replica is about to stop: ask again")

# Never given on purpose: what stands behind it is a defect, which the log tells with the request's id.
DEFECT = Code("internal-error", HTTPStatus.INTERNAL_SERVER_ERROR, "The engine has a defect")

CODES = (
    *(MALFORMED_REQUEST, MALFORMED_JSON, SLOW_BODY, LARGE_BODY, LARGE_HEADERS, OTHER_CONTENT),
    *(MALFORMED_INTENT, OTHER_DOMAIN, MALFORMED_SIGNATURE, MALLEABLE_SIGNATURE, PASSED_DEADLINE, FAR_DEADLINE),
    *(NOT_PERMITTED, UNKNOWN_ROUTE, UNKNOWN_INTENT, OTHER_METHOD, MANY_SUBMISSIONS, MANY_STATUSES, MANY_STREAMS),
    *(NO_LIMITS, NO_STORE, NO_CHAIN, UNKNOWN_OUTCOME, BUSY, DRAINING),
)
OF_INTENTS = {
    code.name: code
    for code in (
        *(MALFORMED_INTENT, MALFORMED_SIGNATURE, MALLEABLE_SIGNATURE, PASSED_DEADLINE, FAR_DEADLINE, NOT_PERMITTED),
    )
}
