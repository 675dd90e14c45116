"""What of a value may stand in a log line. Pure.

A second line of defence: secrets have types that do not print, and errors that do not quote them. This one stops what
came by another way, such as a URL in the message of a library.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import isfinite
from typing import TypeAlias, cast

Shown: TypeAlias = "bool | int | float | str | list[Shown] | dict[str, Shown] | None"

HIDDEN = "***"
DEPTH_MAX = 6
ITEMS_MAX = 100
CHARACTERS_MAX = 20_000

_SECRET_WORDS = frozenset(
    {"password", "passwd", "passphrase", "secret", "token", "mnemonic", "seed", "credential", "authorization"}
    | {"cookie", "privkey", "dsn", "raw"}
)
_KEY_OWNERS = frozenset(
    {"private", "signing", "signer", "master", "sealing", "encryption", "journal", "api", "session"}
)
# Without their plural s, or what looks like one.
_ABOUT_ONE = frozenset({"id", "name", "count", "length", "size", "byte", "addres", "version", "kind", "file"})
_WORD = re.compile(r"[a-z0-9]+")
_CREDENTIALS = re.compile(r"(?<=://)[^\s\"'<>]*@")
# Longer than a hash: calldata at best, a signed transaction at worst.
_LONG_HEX = re.compile(r"0x[0-9a-fA-F]{130,}")


def is_secret(name: str) -> bool:
    """Whether a field of this name holds a secret, and is not only about one (`key_id`, `token_count`)."""
    words = _WORD.findall(name.lower())
    if not words or words[-1].removesuffix("s") in _ABOUT_ONE:
        return False
    singular = [word.removesuffix("s") for word in words]
    owned = any(owner in _KEY_OWNERS and key == "key" for owner, key in pairwise(singular))
    return owned or not _SECRET_WORDS.isdisjoint(singular)


def shown_text(text: str) -> str:
    """The text without credentials of URLs and without signed transactions, and of bounded length."""
    bounded = text if len(text) <= CHARACTERS_MAX else f"{text[:CHARACTERS_MAX]}… ({len(text)} characters)"
    return _LONG_HEX.sub(
        lambda found: f"0x…({(len(found[0]) - 2) // 2} bytes)", _CREDENTIALS.sub(f"{HIDDEN}@", bounded)
    )


def shown(value: object, depth: int = 0) -> Shown:
    """The value as a log line may carry it: plain data, masked, bounded in depth and number.

    Bytes are told by their length alone: those that may be seen, such as hashes, are written as hex by who logs them.
    Other objects show as their own repr, which for keys and signed bytes hides them.
    """
    match value:
        case Mapping() if depth < DEPTH_MAX:
            return shown_fields(cast("Mapping[object, object]", value), depth + 1)
        case list() | tuple() | set() | frozenset() if depth < DEPTH_MAX:
            return _shown_items(list(cast("Sequence[object]", value)), depth + 1)
        case _:
            return _shown_scalar(value)


def shown_fields(fields: Mapping[object, object], depth: int = 0) -> dict[str, Shown]:
    """Each field as it may be seen, those of a secret name hidden whole."""
    few = list(fields.items())[:ITEMS_MAX]
    result = {str(name): HIDDEN if is_secret(str(name)) else shown(value, depth) for name, value in few}
    if len(fields) > len(few):
        result["…"] = f"{len(fields) - len(few)} more"
    return result


def _shown_scalar(value: object) -> Shown:
    match value:
        case None | bool() | int():
            return value
        case float():
            return value if isfinite(value) else str(value)
        case str():
            return shown_text(value)
        case bytes() | bytearray():
            return f"({len(value)} bytes)"
        case _:
            return shown_text(_repr(value))


def _shown_items(items: Sequence[object], depth: int) -> list[Shown]:
    few = [shown(item, depth) for item in items[:ITEMS_MAX]]
    return [*few, f"… {len(items) - ITEMS_MAX} more"] if len(items) > ITEMS_MAX else few


def _repr(value: object) -> str:
    try:
        return repr(value)
    except Exception as error:  # noqa: BLE001 - told in place of the value: a log line never fails its writer
        return f"({type(value).__name__} whose repr raised {type(error).__name__})"
