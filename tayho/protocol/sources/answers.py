"""From the bytes of an answer to an observation. Pure.

A signed answer is an envelope: `{"payload": "<a JSON text>", "signature": "0x…"}`. What is signed are the bytes of that
text, as any wallet signs a message (EIP-191), so that no two readers can differ about what they are.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import TypeAlias, cast

from eth_utils.crypto import keccak

from rpc.json_text import parse_json
from rpc.quantities import Unreadable
from tayho.kernel.address import Address
from tayho.kernel.decimals import DecimalRefused, scaled
from tayho.kernel.markets import SourceSettings
from tayho.protocol.sources.errors import SourceForged, SourceUnusable
from tayho.protocol.sources.types import Observation

# The address whose key signed a digest: (digest, recovery bit, r, s). Raises ValueError.
Recover: TypeAlias = Callable[[bytes, int, int, int], bytes]

_SIGNATURE = re.compile(r"0x[0-9a-fA-F]{130}", re.ASCII)
_INDEX = re.compile(r"0|[1-9][0-9]{0,5}", re.ASCII)
_V_OFFSET = 27
_SECONDS_END = 2**40


def observation_of(body: bytes, settings: SourceSettings, recover: Recover) -> Observation | None:
    """What the answer says; None where the value is null: the source lives, and there is nothing to tell yet.

    Raises SourceForged, SourceUnusable.
    """
    document = _parsed(body)
    if settings.signer is not None:
        document = _parsed(_signed_payload(document, settings.signer, recover))
    if settings.subject_at is not None and _at(document, settings.subject_at) != settings.subject:
        raise SourceForged(f"the answer is not about {settings.subject}")
    value = _at(document, settings.value_at)
    if value is None:
        return None
    units = settings.timestamp_units
    observed_at = _number(_at(document, settings.timestamp_at), "timestamp", 9) // (10**9 * units)
    if not 0 <= observed_at < _SECONDS_END:
        raise SourceUnusable("the timestamp is no time since 1970")
    return Observation(_number(value, "value", settings.decimals), observed_at)


def signed_bytes(payload: bytes) -> bytes:
    """The digest that a wallet signs for a message (EIP-191, version 0x45)."""
    return bytes(keccak(b"\x19Ethereum Signed Message:\n" + str(len(payload)).encode() + payload))


def _parsed(body: bytes) -> object:
    try:
        return parse_json(body)
    except Unreadable as error:
        raise SourceUnusable(f"the answer cannot be read: {error}") from error


def _signed_payload(document: object, signer: Address, recover: Recover) -> bytes:
    envelope: Mapping[str, object] = cast("Mapping[str, object]", document) if isinstance(document, Mapping) else {}
    payload, signature = envelope.get("payload"), envelope.get("signature")
    if not isinstance(payload, str) or not isinstance(signature, str) or _SIGNATURE.fullmatch(signature) is None:
        raise SourceForged("the answer is not signed: expected payload and signature")
    content = payload.encode("utf-8", "surrogatepass")
    raw = bytes.fromhex(signature[2:])
    r, s, v = int.from_bytes(raw[:32], "big"), int.from_bytes(raw[32:64], "big"), raw[64]
    bit = v - _V_OFFSET if v >= _V_OFFSET else v
    if bit not in (0, 1):
        raise SourceForged("the signature is none")
    try:
        found = recover(signed_bytes(content), bit, r, s)
    except ValueError as error:
        raise SourceForged("the signature is none") from error
    if found != signer.value:
        raise SourceForged(f"the answer is signed by {Address(found)}, and {signer} is believed")
    return content


def _at(document: object, pointer: str) -> object:
    """What stands at a JSON pointer (RFC 6901). Raises SourceUnusable where nothing does."""
    found = document
    for part in pointer.split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        if isinstance(found, Mapping) and name in found:
            found = cast("Mapping[str, object]", found)[name]
        elif isinstance(found, list) and _INDEX.fullmatch(name) and int(name) < len(cast("Sequence[object]", found)):
            found = cast("Sequence[object]", found)[int(name)]
        else:
            raise SourceUnusable(f"nothing stands at {pointer}")
    return found


def _number(found: object, what: str, decimals: int) -> int:
    if isinstance(found, bool) or not isinstance(found, (int, Decimal, str)):
        raise SourceUnusable(f"the {what} is no number")
    try:
        return scaled(found, decimals)
    except DecimalRefused as refused:
        raise SourceUnusable(f"the {what}: {refused}") from refused
