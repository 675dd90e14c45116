"""The OpenAPI 3.1 document, made of the same tables that the routes refuse by."""

from __future__ import annotations

from collections.abc import Sequence
from http import HTTPStatus
from importlib.metadata import version
from itertools import groupby

from tayho.api.engine import codes
from tayho.api.engine.routes import DOCUMENT, INTENTS
from tayho.api.engine.schemas import ACCEPTED, INTENT_EXAMPLE, STATUS, SUBMISSION, Schema, problem_schema
from tayho.api.problems import MEDIA_TYPE, Code

_OF_ALL = (codes.MALFORMED_REQUEST, codes.LARGE_HEADERS, codes.DRAINING)
_OF_SUBMISSIONS = (
    *(codes.MALFORMED_JSON, codes.SLOW_BODY, codes.LARGE_BODY, codes.OTHER_CONTENT, codes.MALFORMED_INTENT),
    *(codes.OTHER_DOMAIN, codes.MALFORMED_SIGNATURE, codes.MALLEABLE_SIGNATURE, codes.PASSED_DEADLINE),
    *(codes.FAR_DEADLINE, codes.NOT_PERMITTED, codes.MANY_SUBMISSIONS, codes.NO_LIMITS, codes.NO_STORE, codes.NO_CHAIN),
    *(codes.UNKNOWN_OUTCOME, codes.BUSY),
)
_OF_STATUSES = (codes.UNKNOWN_INTENT, codes.MANY_STATUSES, codes.NO_LIMITS, codes.NO_STORE, codes.BUSY)
_LIMIT_HEADERS = {
    "RateLimit-Limit": "What one client may do in a window.",
    "RateLimit-Remaining": "What is left of it.",
    "RateLimit-Reset": "Seconds until all of it is there again.",
}


def openapi_document() -> Schema:
    """The whole document."""
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "tayho engine",
            "version": version("tayho"),
            "description": "Signed intents in, statuses out. The same intent, submitted however often, is taken once.",
        },
        "paths": {
            INTENTS: {"post": _submit()},
            f"{INTENTS}/{{id}}": {"parameters": [_ID], "get": _read()},
            f"{INTENTS}/{{id}}/events": {"parameters": [_ID], "get": _follow()},
            DOCUMENT: {"get": _describe()},
        },
        "components": {"schemas": {"Submission": SUBMISSION, "Accepted": ACCEPTED, "Status": STATUS}},
    }


_ID: Schema = {
    "name": "id",
    "in": "path",
    "required": True,
    "description": "The id that the submission was answered with.",
    "schema": {"type": "string", "format": "uuid", "examples": ["0190f0a2-7f3c-7c3e-9a51-8b2f6a1c9d04"]},
}


def _submit() -> Schema:
    location = {"Location": {"description": "Where its status is read.", "schema": {"type": "string"}}}
    return {
        "operationId": "submitIntent",
        "summary": "Submit a signed intent",
        "requestBody": {
            "required": True,
            "content": {
                "application/json": {
                    "schema": {"$ref": "#/components/schemas/Submission"},
                    "examples": {"order": {"summary": "An order of one", "value": INTENT_EXAMPLE}},
                }
            },
        },
        "responses": {
            "200": _answer("It was known already.", "Accepted", location),
            "202": _answer("It was taken now.", "Accepted", location),
            **_problems((*_OF_ALL, *_OF_SUBMISSIONS)),
        },
    }


def _read() -> Schema:
    return {
        "operationId": "readIntent",
        "summary": "Read how far an intent has come",
        "responses": {
            "200": _answer("Its status.", "Status"),
            **_problems((*_OF_ALL, *_OF_STATUSES)),
        },
    }


def _follow() -> Schema:
    seen = {
        "name": "Last-Event-ID",
        "in": "header",
        "required": False,
        "schema": {"type": "string", "pattern": "^[0-9]+$"},
    }
    stream = {
        "description": "Server-sent events named `status`, each with a Status as its data, until the intent has ended. "
        "A stream ends after a minute and a half at the latest: ask again with Last-Event-ID.",
        "headers": _headers(_LIMIT_HEADERS),
        "content": {"text/event-stream": {"schema": {"type": "string"}}},
    }
    return {
        "operationId": "followIntent",
        "summary": "Follow an intent until its end",
        "parameters": [seen],
        "responses": {
            "200": stream,
            "204": {"description": "It has ended, and the last event was seen: do not come back."},
            **_problems((*_OF_ALL, *_OF_STATUSES, codes.MANY_STREAMS)),
        },
    }


def _describe() -> Schema:
    return {
        "operationId": "describe",
        "summary": "This document",
        "responses": {
            "200": {"description": "OpenAPI 3.1", "content": {"application/json": {"schema": {"type": "object"}}}},
            **_problems(_OF_ALL),
        },
    }


def _answer(description: str, schema: str, headers: Schema | None = None) -> Schema:
    return {
        "description": description,
        "headers": {**_headers(_LIMIT_HEADERS), **(headers or {})},
        "content": {"application/json": {"schema": {"$ref": f"#/components/schemas/{schema}"}}},
    }


def _headers(described: dict[str, str]) -> Schema:
    return {name: {"description": text, "schema": {"type": "string"}} for name, text in described.items()}


def _problems(refusals: Sequence[Code]) -> Schema:
    """The answers of a route that are no success, by status; each names its codes."""
    by_status = sorted(dict.fromkeys(refusals), key=lambda code: code.status)
    return {
        str(int(status)): _problem(status, list(group))
        for status, group in groupby(by_status, key=lambda code: code.status)
    }


def _problem(status: HTTPStatus, refusals: Sequence[Code]) -> Schema:
    asks_to_wait = status in {HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE}
    headers = _headers({"Retry-After": "Seconds to wait."}) if asks_to_wait else {}
    return {
        "description": "; ".join(f"`{code.name}`: {code.title}" for code in refusals),
        "headers": headers,
        "content": {MEDIA_TYPE: {"schema": problem_schema(refusals)}},
    }
