"""PROTOCOL_MARKETS: read strictly, every fault told together, no key quoted, and as docs/roles.md says."""

from __future__ import annotations

import json
from copy import deepcopy
from typing import Any

import pytest

from tayho.config.kinds import Unusable
from tayho.config.market_kinds import markets
from tests.docs.markdown import blocks, names_in, table_of, text_of

DOCUMENT = "docs/roles.md"
KEY = "v3aK9xkQ2mZp7TqLw1"


def example() -> dict[str, Any]:
    (block,) = blocks(text_of(DOCUMENT), "json")
    return json.loads(block)


def refusal(document: object) -> str:
    with pytest.raises(Unusable) as refused:
        markets().read(document if isinstance(document, str) else json.dumps(document))
    return f"{refused.value.found} {refused.value.why}"


def test_the_example_of_the_page_is_accepted() -> None:
    """Goal: it can be copied. Method: read it; numbers are in the contract's unit, the id is the name's bytes."""
    found = markets().read(json.dumps(example()))["ETH-USD"]
    assert found.market_id == b"ETH-USD".ljust(32, b"\0")
    assert found.funding is not None
    assert found.funding.bounds.maximum == 10**16
    assert found.funding.bounds.change_max == 2 * 10**15
    assert found.guard is not None
    assert (found.guard.floor, found.guard.source.timestamp_units, found.guard.source.is_file) == (5_000, 1_000, True)
    assert (found.depth, found.resolution) == (None, None)
    assert markets().shown({"ETH-USD": found}) == "ETH-USD"


def test_every_field_is_told() -> None:
    """Goal: nothing can be set that the page is silent about. Method: an unknown field's refusal names the known ones'
    absence; the page's tables are compared with what the example and its variations may hold."""
    told = {
        name
        for heading in ("of a market", "of a fact", "of a source")
        for cell, _ in table_of(text_of(DOCUMENT), heading)
        for name in names_in(cell)
    }
    from tayho.config import market_kinds

    known: set[str] = set()
    for name in ("_MarketDocument", "_EpochFeedDocument", "_GuardDocument", "_SourceDocument"):
        known |= {field.name for field in getattr(market_kinds, name).__attrs_attrs__}
    assert told == known - {"funding", "depth", "resolution", "guard"}


def test_every_finding_is_told() -> None:
    """Goal: who looks a finding up finds it. Method: the page's table and the classes."""
    from tayho.protocol.sources import errors

    names = {error.name for error in errors.SourceRefused.__subclasses__()}
    told = {name for cell, _ in table_of(text_of(DOCUMENT), "finding") for name in names_in(cell)}
    assert told == names | {"failed"}


@pytest.mark.parametrize(
    ("place", "value", "said"),
    [
        ("funding.source.url", "http://oracle.example.com/", "https"),
        ("funding.source.url", "ftp://oracle.example.com/", "only http and https"),
        ("funding.source.file", "/var/fact.json", "one of the two"),
        ("funding.source.signer", None, "signed or its server pinned"),
        ("funding.source.subject", None, "come together"),
        ("funding.source.value", "rate", "JSON pointer"),
        ("funding.source.decimals", 37, "decimals is from 0 to 36"),
        ("funding.source.decimals", "18", "expected int"),
        ("funding.source.signer", "0x12", "Address"),
        ("funding.source.certificates", ["12"], "64 hex digits"),
        ("funding.minimum", "0.02", "in order"),
        ("funding.minimum", -1, "expected str"),
        ("funding.minimum", "1e999", "exponent"),
        ("funding.maximum", "1e30", "int128"),
        ("funding.change_max", "0", "above zero"),
        ("funding.age_seconds_max", 0, "age_seconds_max"),
        ("funding.epoch_seconds", True, "expected int"),
        ("funding.unknown", 1, "unknown"),
        ("guard.floor", None, "guards nothing"),
        ("guard.ceiling", "1", "above the ceiling"),
        ("guard.source.file", "fact.json", "absolute"),
        ("guard.source.timestamp_unit", "hours", "seconds or milliseconds"),
        ("id", "0x12", "64 hex digits"),
    ],
)
def test_each_fault_is_named(place: str, value: object, said: str) -> None:
    """Goal: a wrong document is mended from the line alone. Method: the example with one thing wrong in it."""
    document = example()
    *path, last = place.split(".")
    target = document["ETH-USD"]
    for name in path:
        target = target[name]
    if value is None:
        del target[last]
    else:
        target[last] = value
    assert said in refusal(document)


def test_all_faults_are_told_together_and_no_key_among_them() -> None:
    """Goal: one start tells all, and logs no key. Method: two markets with a fault each, their URLs with a key."""
    document = {"A": deepcopy(example()["ETH-USD"]), "B": deepcopy(example()["ETH-USD"])}
    for name in document:
        document[name]["funding"]["source"]["url"] = f"http://oracle.example.com/{KEY}"
    said = refusal(document)
    assert ("A: " in said, "B: " in said, KEY in said) == (True, True, False)


@pytest.mark.parametrize("text", ["", "[]", "{", '{"A": {}, "A": {}}', '{"A": NaN}', '{"A": 1}', '{" ": {}}'])
def test_what_is_no_such_document_is_refused(text: str) -> None:
    """Goal: no guess. Method: texts that are no object of markets."""
    assert refusal(text)


def test_two_markets_of_one_id_are_refused() -> None:
    """Goal: no fact is posted twice under two names. Method: a name, and its bytes as another's id."""
    same = {"id": "0x" + b"A".ljust(32, b"\0").hex()}
    assert "same id" in refusal({"A": {}, "B": same})
