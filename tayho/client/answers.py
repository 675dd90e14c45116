"""From an engine's bytes to values: what it must say is demanded, what it says besides is let be. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import TypeVar
from uuid import UUID

from cattrs import BaseValidationError, Converter, transform_error

from tayho.client.errors import AnswerMalformed
from tayho.client.types import IntentProgress, Problem, Taken
from tayho.intents.signing import domain_document, intent_document
from tayho.intents.types import IntentDomain, SignedIntent
from tayho.kernel.json_document import DocumentRefused, Json, parse

Answer = TypeVar("Answer")

_CODE_CHARACTERS_MAX = 64
_TEXT_CHARACTERS_MAX = 500


def _hex_bytes(value: object, _: type) -> bytes:
    if not isinstance(value, str) or not value.startswith("0x"):
        raise ValueError("expected 0x and hex digits")
    return bytes.fromhex(value[2:])


def _text(value: object, _: type) -> str:
    if not isinstance(value, str):
        raise ValueError("expected text")  # noqa: TRY004 - the converter gathers ValueErrors
    return value


def _moment(value: object, _: type) -> datetime:
    return datetime.fromisoformat(_text(value, str))


def _uuid(value: object, _: type) -> UUID:
    return UUID(_text(value, str))


def _as_it_is(value: object, _: type) -> object:
    return value


_converter = Converter()
_converter.register_structure_hook(bytes, _hex_bytes)
_converter.register_structure_hook(str, _text)
_converter.register_structure_hook(datetime, _moment)
_converter.register_structure_hook(UUID, _uuid)
_converter.register_structure_hook_func(lambda told: told is object, _as_it_is)


def submission_of(signed: SignedIntent, domain: IntentDomain) -> Mapping[str, Json]:
    """The body of a submission. It says what was signed for, so that a wrong engine says so too."""
    names = ("chainId", "verifyingContract")
    return {
        **intent_document(signed.intent),
        "signature": f"0x{signed.signature.hex()}",
        "domain": {name: domain_document(domain)[name] for name in names},
    }


def taken_from(body: bytes) -> Taken:
    """Raises AnswerMalformed."""
    return _structured(body, Taken)


def progress_from(body: bytes | str) -> IntentProgress:
    """Raises AnswerMalformed."""
    return _structured(body, IntentProgress)


def problem_from(status: int, body: bytes) -> Problem:
    """The document beside a bad status; one that cannot be read, as a proxy's page, is a problem without a code."""
    try:
        document = parse(body)
    except DocumentRefused:
        document = None
    members: Mapping[str, Json] = document if isinstance(document, Mapping) else {}
    return Problem(
        status,
        code=_shown(members.get("code"), _CODE_CHARACTERS_MAX),
        title=_shown(members.get("title"), _TEXT_CHARACTERS_MAX),
        detail=_shown(members.get("detail"), _TEXT_CHARACTERS_MAX),
        request_id=_shown(members.get("request_id"), _CODE_CHARACTERS_MAX) or None,
        document=members,
    )


def _shown(value: Json, characters_max: int) -> str:
    """A text of a stranger's, in a length and form that a log can hold."""
    return "".join(one for one in value if one.isprintable())[:characters_max] if isinstance(value, str) else ""


def _structured(body: bytes | str, answer: type[Answer]) -> Answer:
    try:
        return _converter.structure(parse(body), answer)
    except DocumentRefused as error:
        raise AnswerMalformed(f"the engine's answer is no JSON: {error}") from error
    except BaseValidationError as error:
        raise AnswerMalformed(f"not an engine's answer: {'; '.join(transform_error(error))}") from error
