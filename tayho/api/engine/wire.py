"""Intents and statuses as JSON. Reading is strict: what is not exactly an intent is refused, never guessed. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import NoReturn, cast

from tayho.api.engine import codes
from tayho.api.engine.refusals import RequestRefused
from tayho.intents.types import Accepted, Intent, IntentDomain, IntentStatus, SignedIntent
from tayho.kernel.address import Address, AddressRefused
from tayho.kernel.json_document import Json
from tayho.kernel.plain import plain

FIELDS = ("account", "action", "market", "payload", "salt", "deadline", "signature")
DOMAIN = "domain"
DECIMAL_PATTERN = r"(?:0|[1-9][0-9]{0,77})"
HEX_PATTERN = r"0x(?:[0-9a-fA-F]{2})*"
WORD_PATTERN = r"0x[0-9a-fA-F]{64}"
# Readers of JSON elsewhere lose digits beyond.
NUMBER_MAX = 2**53 - 1
# Errors that are about the intent itself; any other is its batch's.
TOLD_ERRORS = frozenset({"Unbatchable", "IntentFailed"})
OF_BATCH: Mapping[str, str] = {"type": "BatchFailed", "message": "the batch that carried the intent took no effect"}
_DECIMAL, _HEX, _WORD = re.compile(DECIMAL_PATTERN), re.compile(HEX_PATTERN), re.compile(WORD_PATTERN)
_SHOWN_CHARACTERS_MAX = 32


class _NotPlain(ValueError):
    """JSON that readers understand differently: a name that comes twice, a number that is none."""


def read_submission(body: bytes, domain: IntentDomain) -> SignedIntent:
    """The signed intent of a body. Raises RequestRefused: it is no JSON object, or a field is not what it must be."""
    members = _members(body)
    for name in members:
        if name not in FIELDS and name != DOMAIN:
            raise _wrong(name, "there is no such field")
    if DOMAIN in members:
        _check_domain(members[DOMAIN], domain)
    intent = Intent(
        account=_address(members, "account"),
        action=_number(members, "action"),
        market=_bytes(members, "market", _WORD, "0x and 64 hex digits"),
        payload=_bytes(members, "payload", _HEX, "0x and pairs of hex digits"),
        salt=_number(members, "salt"),
        deadline=_number(members, "deadline"),
    )
    return SignedIntent(intent, _bytes(members, "signature", _HEX, "0x and 130 hex digits"))


def accepted_document(accepted: Accepted) -> dict[str, object]:
    """What a submission is answered with."""
    return {
        "id": str(accepted.job_id),
        "digest": f"0x{accepted.digest.hex()}",
        "state": accepted.state,
        "created": accepted.created,
    }


def status_document(status: IntentStatus) -> dict[str, object]:
    """How far an intent has come."""
    batch = None
    if status.batch_job_id is not None:
        batch = {"id": str(status.batch_job_id), "index": status.child_index, "succeeded": status.succeeded}
    return {
        "id": str(status.job_id),
        "digest": f"0x{status.digest.hex()}",
        "state": status.state,
        "final": status.is_final,
        "account": str(status.account),
        "action": status.action,
        "deadline": str(status.deadline),
        "accepted_at": status.accepted_at.isoformat(),
        "changed_at": status.changed_at.isoformat(),
        "batch": batch,
        "result": plain(status.result),
        "error": _error_document(status.last_error),
    }


def _error_document(last_error: Json) -> object:
    """What went wrong, as far as it is the signer's: an operator's words and our own outages are not."""
    if not isinstance(last_error, Mapping):
        return None
    return plain(last_error) if last_error.get("type") in TOLD_ERRORS else dict(OF_BATCH)


def version_of(status: IntentStatus) -> str:
    """What tells a status from the one before: it names an event of a stream."""
    return str(int(status.changed_at.timestamp() * 1_000_000))


def _members(body: bytes) -> Mapping[str, object]:
    try:
        document = json.loads(body.decode(), object_pairs_hook=_once_each, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        told = str(error) if isinstance(error, _NotPlain | json.JSONDecodeError) else "it cannot be read"
        raise RequestRefused(codes.MALFORMED_JSON, f"The body is no JSON: {told}.") from error
    if not isinstance(document, dict):
        raise RequestRefused(codes.MALFORMED_JSON, "The body is JSON, but no object.")
    return cast("dict[str, object]", document)


def _once_each(pairs: list[tuple[str, object]]) -> dict[str, object]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise _NotPlain("a name comes twice")
    return members


def _refuse_constant(name: str) -> NoReturn:
    raise _NotPlain(f"{name} is no number")


def _check_domain(found: object, domain: IntentDomain) -> None:
    """Where a client says what it has signed for, a mistake has a name of its own."""
    if not isinstance(found, dict):
        raise _wrong(DOMAIN, "it must be an object of chainId and verifyingContract")
    members = cast("dict[str, object]", found)
    for name in members:
        if name not in {"chainId", "verifyingContract"}:
            raise _wrong(f"{DOMAIN}.{_shown(name)}", "there is no such field")
    if "chainId" in members and _number(members, "chainId") != domain.chain_id:
        raise RequestRefused(codes.OTHER_DOMAIN, f"Intents are taken for chain {domain.chain_id}.")
    if "verifyingContract" in members and _address(members, "verifyingContract") != domain.protocol:
        raise RequestRefused(codes.OTHER_DOMAIN, f"Intents are taken for the contract {domain.protocol}.")


def _address(members: Mapping[str, object], name: str) -> Address:
    text = _text(members, name)
    try:
        return Address.parse(text)
    except AddressRefused as error:
        raise _wrong(name, "it must be 0x and 40 hex digits, mixed case only with a right checksum (EIP-55)") from error


def _bytes(members: Mapping[str, object], name: str, pattern: re.Pattern[str], expected: str) -> bytes:
    text = _text(members, name)
    if pattern.fullmatch(text) is None:
        raise _wrong(name, f"it must be {expected}")
    return bytes.fromhex(text[2:])


def _number(members: Mapping[str, object], name: str) -> int:
    """A whole number; a text of digits where it may be great."""
    value = _value(members, name)
    if isinstance(value, str) and _DECIMAL.fullmatch(value) is not None:
        return int(value)
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= NUMBER_MAX:
        return value
    raise _wrong(name, f"it must be a whole number: digits in a text, or a JSON number from 0 to {NUMBER_MAX}")


def _text(members: Mapping[str, object], name: str) -> str:
    value = _value(members, name)
    if not isinstance(value, str):
        raise _wrong(name, "it must be a text")
    return value


def _value(members: Mapping[str, object], name: str) -> object:
    if name not in members:
        raise _wrong(name, "it is missing")
    return members[name]


def _wrong(name: str, why: str) -> RequestRefused:
    field = _shown(name)
    return RequestRefused(codes.MALFORMED_INTENT, f"{field}: {why}.", members={"field": field})


def _shown(name: str) -> str:
    """A name that a stranger chose, as it may stand in an answer."""
    return ascii(name)[1:-1][:_SHOWN_CHARACTERS_MAX]
