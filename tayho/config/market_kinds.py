"""The markets of the protocol as a variable: a JSON object, read strictly, every fault of it told together.

The document is described in docs/roles.md. Its URLs may carry keys, so that nothing of them is quoted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar, cast

from attrs import frozen
from cattrs import BaseValidationError, Converter, transform_error

from rpc.errors import EndpointUrlRefused
from rpc.hosts import host_of
from rpc.urls import EndpointUrl
from tayho.config.kinds import Kind, Unusable
from tayho.kernel import json_document
from tayho.kernel.address import Address
from tayho.kernel.decimals import DecimalRefused, scaled
from tayho.kernel.markets import FACT_MAX, FACT_MIN, Bounds, EpochFeed, Feed, Guard, Market, SourceSettings

MARKETS_MAX = 256
DECIMALS_MAX = 36
# A week: an epoch is no longer than what people remember.
EPOCH_SECONDS_MAX = 604_800
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,30}", re.ASCII)
_MARKET_ID = re.compile(r"0x[0-9a-fA-F]{64}", re.ASCII)
_DIGEST = re.compile(r"[0-9a-fA-F]{64}", re.ASCII)
_UNITS = {"seconds": 1, "milliseconds": 1_000}


@frozen(kw_only=True)
class _SourceDocument:
    url: str | None = None
    file: str | None = None
    value: str
    timestamp: str
    timestamp_unit: str = "seconds"
    subject: str | None = None
    subject_is: str | None = None
    decimals: int = 0
    signer: Address | None = None
    certificates: tuple[str, ...] = ()


@frozen(kw_only=True)
class _FeedDocument:
    source: _SourceDocument
    minimum: str
    maximum: str
    age_seconds_max: int
    ahead_seconds_max: int = 60


@frozen(kw_only=True)
class _EpochFeedDocument(_FeedDocument):
    epoch_seconds: int
    change_max: str | None = None


@frozen(kw_only=True)
class _GuardDocument(_FeedDocument):
    epoch_seconds: int
    floor: str | None = None
    ceiling: str | None = None


@frozen(kw_only=True)
class _MarketDocument:
    id: str | None = None
    funding: _EpochFeedDocument | None = None
    depth: _EpochFeedDocument | None = None
    resolution: _FeedDocument | None = None
    guard: _GuardDocument | None = None


def _whole(value: object, _: type) -> int:
    if type(value) is not int:
        raise ValueError("expected a whole number")
    return value


def _text(value: object, _: type) -> str:
    if not isinstance(value, str):
        raise ValueError("expected a text (numbers with decimals are written as texts)")  # noqa: TRY004 - cattrs' own
    return value


_documents = Converter(forbid_extra_keys=True)
_documents.register_structure_hook(int, _whole)
_documents.register_structure_hook(str, _text)
_documents.register_structure_hook(Address, lambda value, _: Address.parse(_text(value, str)))


def markets() -> Kind[Mapping[str, Market]]:
    """The markets by their names."""
    return Kind("a JSON object of market name to its facts", _read, lambda found: ", ".join(found) or "none")


def _read(text: str) -> Mapping[str, Market]:
    try:
        document = json_document.parse(text)
        if not isinstance(document, Mapping):
            raise Unusable("JSON that is no object")
        named = _documents.structure(document, dict[str, _MarketDocument])
    except json_document.DocumentRefused as refused:
        raise Unusable(f"a text that is refused: {refused}") from refused
    except BaseValidationError as refused:
        raise Unusable("; ".join(transform_error(refused))) from None
    if len(named) > MARKETS_MAX:
        raise Unusable(f"{len(named)} markets", f"at most {MARKETS_MAX} are served by one deployment")
    found: dict[str, Market] = {}
    faults: list[str] = []
    for name, one in named.items():
        market = _tried(faults, name, lambda one=one, name=name: _market(name, one))
        if market is not None:
            found[name] = market
    repeated = len(found) - len({market.market_id for market in found.values()})
    if repeated:
        faults.append("two markets have the same id")
    if faults:
        raise Unusable("; ".join(faults))
    return found


T = TypeVar("T")


class _Fault(ValueError):
    """Something is wrong with one part of the document; the message quotes nothing that may be a key."""


def _tried(faults: list[str], place: str, read: Callable[[], T]) -> T | None:
    try:
        return read()
    except (_Fault, DecimalRefused) as fault:
        faults.append(f"{place}: {fault}")
        return None


def _market(name: str, document: _MarketDocument) -> Market:
    if _NAME.fullmatch(name) is None:
        raise _Fault("a market's name is 1 to 31 letters, digits, dots, dashes and underscores")
    if document.id is not None and _MARKET_ID.fullmatch(document.id) is None:
        raise _Fault("id is 0x and 64 hex digits")
    # As a Solidity string literal becomes a bytes32.
    market_id = name.encode().ljust(32, b"\0") if document.id is None else bytes.fromhex(document.id[2:])
    faults: list[str] = []

    def of(feed: str, read: Callable[[str], T]) -> T | None:
        return _tried(faults, feed, lambda: read(f"{name}/{feed}"))

    funding, depth, resolution, guard = document.funding, document.depth, document.resolution, document.guard
    market = Market(
        name=name,
        market_id=market_id,
        funding=None if funding is None else of("funding", lambda told: _epoch_feed(told, funding)),
        depth=None if depth is None else of("depth", lambda told: _epoch_feed(told, depth)),
        resolution=None if resolution is None else of("resolution", lambda told: _feed(told, resolution)),
        guard=None if guard is None else of("guard", lambda told: _guard(told, guard)),
    )
    if faults:
        raise _Fault(", ".join(faults))
    return market


def _feed(name: str, document: _FeedDocument) -> Feed:
    return Feed(name=name, source=_source(document.source), bounds=_bounds(document, None))


def _epoch_feed(name: str, document: _EpochFeedDocument) -> EpochFeed:
    return EpochFeed(
        name=name,
        source=_source(document.source),
        bounds=_bounds(document, document.change_max),
        epoch_seconds=_in_range("epoch_seconds", document.epoch_seconds, 1, EPOCH_SECONDS_MAX),
    )


def _guard(name: str, document: _GuardDocument) -> Guard:
    if document.floor is None and document.ceiling is None:
        raise _Fault("a guard without floor and ceiling guards nothing: give one or both")
    decimals = document.source.decimals
    floor = None if document.floor is None else scaled(document.floor, decimals)
    ceiling = None if document.ceiling is None else scaled(document.ceiling, decimals)
    if floor is not None and ceiling is not None and floor > ceiling:
        raise _Fault("the floor is above the ceiling")
    return Guard(
        name=name,
        source=_source(document.source),
        bounds=_bounds(document, None),
        epoch_seconds=_in_range("epoch_seconds", document.epoch_seconds, 1, EPOCH_SECONDS_MAX),
        floor=floor,
        ceiling=ceiling,
    )


def _bounds(document: _FeedDocument, change_max: str | None) -> Bounds:
    decimals = _in_range("decimals", document.source.decimals, 0, DECIMALS_MAX)
    minimum, maximum = scaled(document.minimum, decimals), scaled(document.maximum, decimals)
    if not FACT_MIN <= minimum <= maximum <= FACT_MAX:
        raise _Fault("minimum and maximum are in order and fit an int128")
    change = None if change_max is None else scaled(change_max, decimals)
    if change is not None and change <= 0:
        raise _Fault("change_max is above zero, or left out")
    return Bounds(
        minimum=minimum,
        maximum=maximum,
        age_seconds_max=_in_range("age_seconds_max", document.age_seconds_max, 1, EPOCH_SECONDS_MAX),
        ahead_seconds_max=_in_range("ahead_seconds_max", document.ahead_seconds_max, 0, 3_600),
        change_max=change,
    )


def _source(document: _SourceDocument) -> SourceSettings:
    faults = list(_source_faults(document))
    if faults:
        raise _Fault("source: " + ", ".join(faults))
    return SourceSettings(
        location=cast("str", document.url or document.file),
        value_at=document.value,
        timestamp_at=document.timestamp,
        subject_at=document.subject,
        subject=document.subject_is,
        decimals=document.decimals,
        timestamp_units=_UNITS[document.timestamp_unit],
        signer=document.signer,
        certificates=tuple(bytes.fromhex(one) for one in document.certificates),
    )


def _source_faults(document: _SourceDocument) -> Iterator[str]:
    if (document.url is None) == (document.file is None):
        yield "give url or file, one of the two"
    if document.file is not None and not document.file.startswith("/"):
        yield "file is an absolute path"
    for name in ("value", "timestamp", "subject"):
        pointer = cast("str | None", getattr(document, name))
        if pointer is not None and not pointer.startswith("/"):
            yield f"{name} is a JSON pointer, such as /data/0/{name}"
    if (document.subject is None) != (document.subject_is is None):
        yield "subject and subject_is come together"
    if document.timestamp_unit not in _UNITS:
        yield f"timestamp_unit is {' or '.join(_UNITS)}"
    if any(_DIGEST.fullmatch(one) is None for one in document.certificates):
        yield "certificates are SHA-256 digests of 64 hex digits"
    if document.signer is not None and document.subject is None:
        yield "a signed answer says what it is about: give subject and subject_is, or another market's would pass"
    if document.url is not None:
        yield from _url_faults(document, document.url)
    elif document.certificates:
        yield "a file shows no certificate"


def _url_faults(document: _SourceDocument, url: str) -> Iterator[str]:
    try:
        EndpointUrl.parse(url)
    except EndpointUrlRefused as refused:
        yield f"url {refused.shown}: {refused.detail}"
        return
    if host_of(url) == "localhost":
        return
    if not url.startswith("https:"):
        yield "url is https, or on this machine"
    if document.signer is None and not document.certificates:
        yield "an answer from another machine is signed or its server pinned: give signer or certificates"


def _in_range(name: str, value: int, least: int, most: int) -> int:
    if not least <= value <= most:
        raise _Fault(f"{name} is from {least} to {most}")
    return value
