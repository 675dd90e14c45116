"""Typed values are read whole and right, or not at all."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from decimal import Decimal
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rpc import schemas
from rpc.json_text import parse_json
from rpc.quantities import Unreadable
from tests.rpc import examples
from tests.rpc.examples import without

fee_history = partial(schemas.fee_history, percentiles=2)

SCHEMAS: dict[str, tuple[Callable[[object], object], dict[str, Any]]] = {
    "header": (schemas.header, examples.block()),
    "log": (schemas.log, examples.log()),
    "receipt": (schemas.receipt, examples.receipt()),
    "transaction": (schemas.transaction, examples.transaction()),
    "fee_history": (fee_history, examples.fee_history()),
    "account_proof": (schemas.account_proof, examples.account_proof()),
}
IGNORED = {"header": {"transactions"}}
# What only the block's hash is made of, and what older forks lack.
HASHED_ONLY = {
    *("baseFeePerGas", "sha3Uncles", "difficulty", "extraData", "mixHash", "nonce"),
    *("withdrawalsRoot", "blobGasUsed", "excessBlobGas", "parentBeaconBlockRoot", "requestsHash"),
}
ABSENT_ALLOWED = {
    "header": HASHED_ONLY,
    "log": {"removed"},
    "receipt": {"contractAddress", "logsBloom"},
    "transaction": {"chainId", "gasPrice"},
}
NULL_ALLOWED = {
    "header": HASHED_ONLY,
    "log": {"removed"},
    "receipt": {"contractAddress", "to", "logsBloom"},
    "transaction": {"chainId", "gasPrice", "to"},
}
# Members that a value may lack, but not beside the others of the example.
NAMED_OTHERWISE = {
    "maxFeePerGas": "fee limits",
    "maxPriorityFeePerGas": "fee limits",
    "transactionIndex": "[iI]ndex",
}


def members(allowed: dict[str, set[str]]) -> list[tuple[str, str]]:
    """Every member of every example that its schema insists on."""
    return [
        (kind, name)
        for kind, (_, document) in SCHEMAS.items()
        for name in document
        if name not in allowed.get(kind, set()) | IGNORED.get(kind, set())
    ]


@pytest.mark.parametrize(("kind", "name"), members(ABSENT_ALLOWED))
def test_a_missing_member_is_named(kind: str, name: str) -> None:
    """Goal: RPC-8, missing fields. Method: leave out each member of each value in turn."""
    parse, document = SCHEMAS[kind]
    parse(document)
    with pytest.raises(Unreadable, match=NAMED_OTHERWISE.get(name, name)):
        parse(without(document, name))


@pytest.mark.parametrize(("kind", "name"), members(NULL_ALLOWED))
def test_a_mistyped_member_is_named(kind: str, name: str) -> None:
    """Goal: RPC-8, mistyped fields. Method: put values of other types and of wrong sizes into each member."""
    parse, document = SCHEMAS[kind]
    too_large = "0x1" + "f" * 64
    empty_object: dict[str, object] = {}
    wrongs = [None, 1, "", "latest", too_large, empty_object]
    if name not in {"data", "input"}:
        wrongs += ["0x", "0x00"]
    for wrong in wrongs:
        with pytest.raises(Unreadable):
            parse({**document, name: wrong})


def test_a_receipt_is_read_field_by_field() -> None:
    """Goal: each field lands where it belongs. Method: an example with distinct values."""
    receipt = schemas.receipt(examples.receipt())
    assert receipt.transaction_hash == b"\xab" * 32
    assert receipt.block_hash == b"\xcd" * 32
    assert (receipt.block_number, receipt.transaction_index) == (16, 1)
    assert (receipt.sender, receipt.to, receipt.contract_address) == (b"\x11" * 20, b"\x22" * 20, None)
    assert (receipt.gas_used, receipt.cumulative_gas_used) == (21000, 42000)
    assert receipt.effective_gas_price_wei == 1_000_000_007
    assert (receipt.status, receipt.succeeded, receipt.reverted, receipt.type) == (1, True, False, 2)
    assert [log.log_index for log in receipt.logs] == [3, 4]
    assert (receipt.logs[0].data, receipt.logs[0].removed) == (b"\x12\x34", False)
    assert receipt.logs[0].topics == (b"\x01" * 32, b"\x02" * 32)


def test_a_receipt_without_status_tells_no_outcome() -> None:
    """Goal: a receipt of before Byzantium is neither success nor failure. Method: a root in the status's place."""
    old = without(examples.receipt(), "status") | {"root": "0x" + "09" * 32}
    receipt = schemas.receipt(old)
    assert (receipt.status, receipt.succeeded, receipt.reverted) == (None, False, False)
    assert receipt.post_state_root == b"\x09" * 32
    with pytest.raises(Unreadable, match="status is missing"):
        schemas.receipt(without(examples.receipt(), "status"))
    beside = schemas.receipt(examples.receipt(root="0x"))
    assert (beside.status, beside.post_state_root) == (1, None)


@pytest.mark.parametrize(
    "spoilt",
    [
        examples.receipt(status="0x2"),
        examples.receipt(gasUsed="0xffff"),
        examples.receipt(logs=[examples.log(transactionHash=examples.BLOCK_HASH)]),
        examples.receipt(logs=[examples.log(blockHash=examples.HASH)]),
        examples.receipt(logs=[examples.log(blockNumber="0x11")]),
        examples.receipt(logs=[examples.log(), examples.log()]),
        examples.receipt(logs=[examples.log(topics=["0x" + "01" * 32] * 5)]),
        examples.receipt(type="0x80"),
    ],
)
def test_a_receipt_tells_one_story(spoilt: dict[str, Any]) -> None:
    """Goal: a receipt mixed from two is refused. Method: parts that contradict each other."""
    with pytest.raises(Unreadable):
        schemas.receipt(spoilt)


def test_a_transaction_is_pending_or_mined() -> None:
    """Goal: no half-mined transaction. Method: null places, the zero hash of infura#30, and contradictions."""
    nowhere = {"blockHash": None, "blockNumber": None, "transactionIndex": None}
    assert schemas.transaction(examples.transaction(**nowhere)).is_pending
    zero = nowhere | {"blockHash": "0x" + "00" * 32}
    assert schemas.transaction(examples.transaction(**zero)).is_pending
    assert not schemas.transaction(examples.transaction()).is_pending
    for contradiction in ({"blockHash": None}, {"blockNumber": None}, {"transactionIndex": None}):
        with pytest.raises(Unreadable):
            schemas.transaction(examples.transaction(**contradiction))


def test_a_fee_history_matches_itself() -> None:
    """Goal: rows that do not belong together are refused. Method: wrong counts, ratios outside 0 to 1, floats."""
    wire = json.dumps(examples.fee_history(gasUsedRatio=[0, "HALF"])).replace('"HALF"', "0.5")
    history = fee_history(parse_json(wire.encode()))
    assert history.gas_used_ratio == (Decimal(0), Decimal("0.5"))
    assert history.reward_wei == ((1, 2), (1, 3))
    assert schemas.fee_history(examples.fee_history(reward=None, gasUsedRatio=[0, 1]), 0).reward_wei == ()
    for wrong in (
        {"gasUsedRatio": [0]},
        {"gasUsedRatio": [0, 2]},
        {"gasUsedRatio": [0, -1]},
        {"gasUsedRatio": [0, True]},
        {"gasUsedRatio": [0, "0.5"]},
        {"reward": [["0x1"], ["0x1", "0x3"]]},
        {"reward": [["0x1", "0x2"]]},
        {"baseFeePerGas": ["0x7", "0x8"]},
    ):
        with pytest.raises(Unreadable):
            fee_history(examples.fee_history(gasUsedRatio=[0, 1]) | wrong)


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.sampled_from(["0x0", "0x1", examples.HASH]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.parametrize("kind", SCHEMAS)
@given(data=st.data())
def test_no_json_raises_anything_but_unreadable(kind: str, data: st.DataObject) -> None:
    """Goal: nothing raw escapes a schema. Method: any JSON, and honest values with some members replaced by any."""
    parse, document = SCHEMAS[kind]
    spoilt = data.draw(ANYTHING | st.dictionaries(st.sampled_from(sorted(document)), ANYTHING).map(document.__or__))
    with suppress(Unreadable):
        parse(spoilt)
