"""What we write of a value reads back as the same value."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from rpc import schemas
from rpc.json_text import parse_json
from rpc.rendering import render
from tests.rpc import examples

CASES: dict[str, tuple[Callable[[object], object], dict[str, Any]]] = {
    "header": (schemas.header, examples.block()),
    "log": (schemas.log, examples.log()),
    "receipt": (schemas.receipt, examples.receipt()),
    "creation": (schemas.receipt, examples.receipt(to=None, contractAddress=examples.ADDRESS)),
    "transaction": (schemas.transaction, examples.transaction()),
    "fee history": (partial(schemas.fee_history, percentiles=2), examples.fee_history()),
    "account proof": (schemas.account_proof, examples.account_proof()),
}


@pytest.mark.parametrize("name", CASES)
def test_a_rendered_value_reads_back_as_itself(name: str) -> None:
    """Goal: nothing is lost or changed. Method: read, render, write, parse, read again."""
    parse, document = CASES[name]
    value = parse(document)
    again = parse(parse_json(json.dumps(render(value)).encode()))
    assert again == value
    assert render(again) == render(value)


def test_one_value_has_one_form() -> None:
    """Goal: a voter's letter case, order and additions leave no trace. Method: the same log told in two ways."""
    plain = examples.log(address="0x" + "ab" * 20)
    other = dict(reversed(plain.items())) | {"address": "0x" + "AB" * 20, "blockTimestamp": "0x1"}
    assert json.dumps(render(schemas.log(other))) == json.dumps(render(schemas.log(plain)))


def test_the_bloom_of_a_receipt_is_our_own() -> None:
    """Goal: nothing of a voter's body is kept that nobody voted on. Method: a bloom told wrong, and one left out."""
    told = render(schemas.receipt(examples.receipt(logsBloom="0x" + "ff" * 256)))
    left_out = render(schemas.receipt(examples.without(examples.receipt(), "logsBloom")))
    assert isinstance(told, dict)
    assert told == left_out
    assert told["logsBloom"] not in {"0x" + "ff" * 256, "0x" + "00" * 256}


def test_nothing_foreign_is_rendered() -> None:
    """Goal: a body that no schema read cannot pass for a value of ours. Method: hand one in."""
    with pytest.raises(TypeError, match="dict"):
        render({"status": "0x1"})
