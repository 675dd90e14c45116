"""JSON that PostgreSQL can hold and that means the same to every reader."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import NoReturn, TypeAlias, cast

Json: TypeAlias = "bool | int | float | str | Sequence[Json] | Mapping[str, Json] | None"

DOCUMENT_BYTES_MAX = 64 * 1024
DEPTH_MAX = 64
# PostgreSQL's numeric reaches further, but nothing that a job means needs more than an EVM word.
INTEGER_MAX = 2**256 - 1


class DocumentRefused(ValueError):
    """The value cannot be stored as a JSON document without loss. Nothing was recorded."""


def _refuse_constant(name: str) -> NoReturn:
    raise DocumentRefused(f"{name} is no JSON number")


def _pairs_once(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    seen: dict[str, Json] = {}
    for key, value in pairs:
        if key in seen:
            raise DocumentRefused(f"the key {key!r} appears twice in one object")
        seen[key] = value
    return seen


def parse(text: str | bytes) -> Json:
    """Read a document; duplicate keys, NaN and infinities are refused rather than guessed at.

    Raises DocumentRefused.
    """
    try:
        value = cast("Json", json.loads(text, object_pairs_hook=_pairs_once, parse_constant=_refuse_constant))
    except RecursionError as error:
        raise DocumentRefused(f"nested deeper than {DEPTH_MAX}") from error
    except DocumentRefused:
        raise
    except ValueError as error:
        # Among them an integer of more digits than Python reads.
        raise DocumentRefused(f"not JSON: {error}") from error
    check(value)
    return value


def check(value: object) -> bytes:
    """Check that the value can be held as jsonb without loss, and return its UTF-8 encoding.

    PostgreSQL refuses NUL and lone surrogates inside jsonb and expands 1e400 to four hundred digits; a float may not
    survive the way there and back. All of these are refused at the door (DLV-10), where the caller has the request.
    Raises DocumentRefused.
    """
    _walk(value, "$", 0)
    # `default` writes mappings that are no dict.
    encoded = json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False, default=dict).encode()
    if len(encoded) > DOCUMENT_BYTES_MAX:
        raise DocumentRefused(
            f"{len(encoded)} bytes; at most {DOCUMENT_BYTES_MAX} are accepted: store it, pass a reference"
        )
    return encoded


def _walk(value: object, path: str, depth: int) -> None:
    if depth > DEPTH_MAX:
        raise DocumentRefused(f"nested deeper than {DEPTH_MAX} at {path}")
    match value:
        case Mapping():
            for key, item in cast("Mapping[object, object]", value).items():
                if not isinstance(key, str):
                    raise DocumentRefused(f"a key at {path} is a {type(key).__name__}; keys are text")
                _check_text(key, path)
                _walk(item, f"{path}.{key}", depth + 1)
        case list() | tuple():
            for index, item in enumerate(cast("Sequence[object]", value)):
                _walk(item, f"{path}[{index}]", depth + 1)
        case _:
            _check_scalar(value, path)


def _check_scalar(value: object, path: str) -> None:
    match value:
        case None | bool():
            return
        case int():
            if abs(value) > INTEGER_MAX:
                raise DocumentRefused(f"the integer at {path} is beyond 256 bits")
        case float():
            if not math.isfinite(value) or "e" in repr(value):
                # jsonb writes an exponent out digit by digit: 1e300 would come back as 301 of them.
                raise DocumentRefused(f"the number at {path} is not finite, or needs an exponent: write it as text")
        case str():
            _check_text(value, path)
        case _:
            raise DocumentRefused(f"the {type(value).__name__} at {path} has no JSON form")


def _check_text(text: str, path: str) -> None:
    if "\x00" in text:
        raise DocumentRefused(f"the text at {path} holds a NUL character, which PostgreSQL cannot store")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise DocumentRefused(f"the text at {path} holds a lone surrogate") from error
