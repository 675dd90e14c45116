"""The values on the wire as OpenAPI 3.1 schemas, made of what reads and refuses them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from tayho.api.engine.wire import DECIMAL_PATTERN, HEX_PATTERN, NUMBER_MAX, WORD_PATTERN
from tayho.api.problems import Code
from tayho.intents.types import ACTION_MAX, PAYLOAD_BYTES_MAX, SIGNATURE_BYTES
from tayho.kernel.transitions import JOB

# A JSON document that is built and only ever served.
Schema: TypeAlias = dict[str, Any]

_ADDRESS = "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266"
_PROTOCOL = "0x5FbDB2315678afecb367f032d93F642f64180aa3"
_WORD = "0x" + "4d" * 32
_ID = "0190f0a2-7f3c-7c3e-9a51-8b2f6a1c9d04"
_TIME = "2026-06-01T12:00:00+00:00"
_PAYLOAD = f"0x{1:064x}{0:064x}"
_SIGNATURE = "0x" + "1b" * 32 + "2c" * 32 + "1b"


def _text(description: str, example: str, **more: object) -> Schema:
    return {"type": "string", "description": description, "examples": [example], **more}


def _hex(description: str, example: str, least: int, most: int) -> Schema:
    """Bytes in hex, so many of them."""
    lengths = {"minLength": 2 + 2 * least, "maxLength": 2 + 2 * most}
    return _text(description, example, pattern=f"^{HEX_PATTERN}$", **lengths)


def _number(description: str, example: str) -> Schema:
    return {
        "description": description,
        "examples": [example],
        "oneOf": [
            {"type": "string", "pattern": f"^{DECIMAL_PATTERN}$"},
            {"type": "integer", "minimum": 0, "maximum": NUMBER_MAX},
        ],
    }


def _object(properties: Schema, *, optional: Sequence[str] = (), **more: object) -> Schema:
    required = [name for name in properties if name not in optional]
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False, **more}


ADDRESS = _text("An address; mixed case must carry a right checksum (EIP-55).", _ADDRESS, pattern="^0x[0-9a-fA-F]{40}$")

INTENT_EXAMPLE: Schema = {
    "account": _ADDRESS,
    "action": 0,
    "market": _WORD,
    "payload": _PAYLOAD,
    "salt": "1",
    "deadline": "1790000000",
    "signature": _SIGNATURE,
    "domain": {"chainId": 31337, "verifyingContract": _PROTOCOL},
}

SUBMISSION = _object(
    {
        "account": ADDRESS,
        "action": {
            "type": "integer",
            "minimum": 0,
            "maximum": ACTION_MAX,
            "description": "What is wished: 0 places an order, 1 cancels one, 2 claims, 3 withdraws.",
            "examples": [0],
        },
        "market": _text("The market, 32 bytes.", _WORD, pattern=f"^{WORD_PATTERN}$"),
        "payload": _hex("The ABI-encoded arguments of the action.", _PAYLOAD, 0, PAYLOAD_BYTES_MAX),
        "salt": _number("Any number that tells two otherwise equal intents apart.", "1"),
        "deadline": _number("Seconds since 1970, from now to 30 days from now.", "1790000000"),
        "signature": _hex("r, s and v of the session key; only the lesser s.", _SIGNATURE, 65, SIGNATURE_BYTES),
        "domain": _object(
            {"chainId": _number("The chain that was signed for.", "31337"), "verifyingContract": ADDRESS},
            optional=("chainId", "verifyingContract"),
            description="What the signature is for. Where it is given, a mistake in it has a code of its own.",
        ),
    },
    optional=("domain",),
    description="An EIP-712 message and its signature.",
    examples=[INTENT_EXAMPLE],
)

_IDENTITY: Schema = {
    "id": _text("The intent's id here.", _ID, format="uuid"),
    "digest": _text("The EIP-712 digest: it names the intent for ever.", _WORD, pattern="^0x[0-9a-f]{64}$"),
    "state": {
        "type": "string",
        "enum": sorted(JOB.states),
        "description": "`pending_batch`: in the line; `batched`: in a transaction; `completed`: final on chain; "
        "`dead`: it took no effect; `quarantined`: it can be in no transaction.",
        "examples": ["pending_batch"],
    },
}

ACCEPTED = _object(
    {**_IDENTITY, "created": {"type": "boolean", "description": "Whether this submission made it.", "examples": [True]}}
)

STATUS = _object(
    {
        **_IDENTITY,
        "final": {"type": "boolean", "description": "Whether nothing is left to do.", "examples": [False]},
        "account": ADDRESS,
        "action": {"type": "integer", "minimum": 0, "maximum": ACTION_MAX, "examples": [0]},
        "deadline": _text("Seconds since 1970.", "1790000000", pattern=f"^{DECIMAL_PATTERN}$"),
        "accepted_at": _text("When it was taken.", _TIME, format="date-time"),
        "changed_at": _text("When its state last changed.", _TIME, format="date-time"),
        "batch": {
            "description": "The transaction that carries it, its place there, and whether it succeeded, once known.",
            "oneOf": [
                {"type": "null"},
                _object(
                    {
                        "id": _text("The batch's id here.", _ID, format="uuid"),
                        "index": {"type": "integer", "minimum": 0, "examples": [0]},
                        "succeeded": {"type": ["boolean", "null"], "examples": [None]},
                    }
                ),
            ],
            "examples": [None],
        },
        "result": {
            "type": ["object", "null"],
            "description": "Of one that is `completed`: `tx_hash`, `block_number` and `block_hash`, `child_index`, "
            "`return_data_digest`.",
            "examples": [None],
        },
        "error": {
            "type": ["object", "null"],
            "properties": {"type": {"type": "string"}, "message": {"type": "string"}},
            "required": ["type", "message"],
            "description": "Of one that failed: `Unbatchable`, `IntentFailed` or `BatchFailed`, and a sentence.",
            "examples": [None],
        },
    }
)


def problem_schema(codes: Sequence[Code]) -> Schema:
    """A problem document of one of these codes."""
    first = codes[0]
    return {
        "type": "object",
        "properties": {
            "type": _text("Names the kind of problem.", first.type_uri, enum=[code.type_uri for code in codes]),
            "title": _text("The kind, for a person.", first.title),
            "status": {"type": "integer", "const": int(first.status)},
            "code": _text("The stable name of the kind.", first.name, enum=[code.name for code in codes]),
            "detail": _text("What happened this time.", f"{first.title}."),
            "request_id": _text("Finds this request in the log.", "4f5c2a9be1d04c7f8a61"),
            "field": _text("The field that is wrong.", "deadline"),
            "reason": _text("The contract's own name for its refusal.", "IntentSpent"),
        },
        "required": ["type", "title", "status", "code", "detail"],
    }
