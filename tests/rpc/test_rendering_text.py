"""Our own JSON of a value is read back to the same value, and is one text for one value (RPC-5)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from attrs import evolve

from rpc import schemas
from rpc.json_text import parse_json
from rpc.rendering import rendered
from tests.rpc import examples


@pytest.mark.parametrize(
    ("read", "document"),
    [
        (schemas.receipt, examples.receipt()),
        (schemas.receipt, examples.without(examples.receipt(root="0x" + "01" * 32), "status")),
        (schemas.header, examples.block()),
        (schemas.header, examples.without(examples.block(), "baseFeePerGas")),
        (schemas.log, examples.log()),
        (schemas.transaction, examples.transaction()),
        (schemas.transaction, examples.transaction(blockHash=None, blockNumber=None, transactionIndex=None)),
    ],
)
def test_what_is_rendered_is_read_back(read: Any, document: dict[str, Any]) -> None:
    """Goal: the rendering loses nothing that we hold and passes nothing on that we do not. Method: honest JSON with a
    foreign member beside, read, rendered, read again."""
    value = read(document | {"foreign": "0x1"})
    text = rendered(value)
    assert read(parse_json(text.encode())) == value
    assert "foreign" not in text
    assert rendered(read(dict(reversed(document.items())))) == text


def test_what_a_lossy_form_makes_equal_stays_apart() -> None:
    """Goal: no two values share a text. Method: pairs that dropping empties, zeros or quotes would make equal."""
    receipt = schemas.receipt(examples.receipt())
    event = receipt.logs[0]
    texts = [
        rendered(receipt),
        rendered(evolve(receipt, status=0)),
        rendered(evolve(receipt, logs=())),
        rendered(evolve(receipt, logs=(evolve(event, topics=(event.topics[0],)),))),
        rendered(evolve(receipt, logs=(evolve(event, topics=(event.topics[0], b"\0" * 32)),))),
        rendered(evolve(receipt, logs=(evolve(event, data=b"\x00\xff"),))),
        rendered(evolve(receipt, logs=(evolve(event, data=b"\xff"),))),
    ]
    assert len(set(texts)) == len(texts)
    assert [rendered(value) for value in (None, True, 1, b"\1", "a", (1, b""))] == [
        "null",
        "true",
        '"0x1"',
        '"0x01"',
        '"a"',
        '["0x1","0x"]',
    ]
    assert json.loads(rendered(event))["topics"][0] == "0x" + "01" * 32


def test_a_foreign_type_is_refused() -> None:
    """Goal: nothing is rendered by accident. Method: a set, and a negative number."""
    with pytest.raises(TypeError, match="set"):
        rendered({1})
    with pytest.raises(ValueError, match="negative"):
        rendered(-1)
