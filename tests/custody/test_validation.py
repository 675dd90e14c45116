"""Every rule of signing is reached, and nothing invalid is signed."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st

from tayho.custody.types import Reservation, Rule, SigningPolicy, SigningRequest
from tayho.custody.validation import refusals
from tayho.kernel.address import Address
from tayho.kernel.call_hash import call_hash
from tests.custody.examples import (
    CHAIN_ID,
    CONTRACT,
    OTHER_SIGNER,
    POLICY,
    REQUEST,
    SIGNER,
    reservation_of,
    right_requests,
)

RESERVED = reservation_of(REQUEST)
FEE_MAX = POLICY.max_fee_per_gas_wei_max
INTEGERS = (
    *("chain_id", "nonce", "value_wei", "gas_limit"),
    *("max_fee_per_gas_wei", "max_priority_fee_per_gas_wei", "transaction_type"),
)
LEGACY = {"transaction_type": 0, "max_fee_per_gas_wei": 5, "max_priority_fee_per_gas_wei": 5, "access_list": ()}

# Each rule, broken alone: what to change in a request that is otherwise right.
BROKEN: list[tuple[Rule, dict[str, Any]]] = [
    (Rule.FIELD_TYPE, {"data": bytearray(b"\x01")}),
    (Rule.CHAIN_ID_MISSING, {"chain_id": 0}),
    (Rule.CHAIN_ID_MISSING, {"chain_id": None}),
    (Rule.CHAIN_ID_NOT_ALLOWED, {"chain_id": 1}),
    (Rule.CHAIN_ID_NOT_ALLOWED, {"chain_id": -CHAIN_ID}),
    (Rule.NONCE_OUT_OF_RANGE, {"nonce": -1}),
    (Rule.NONCE_OUT_OF_RANGE, {"nonce": 2**64 - 1}),
    (Rule.TO_MISSING, {"to": None}),
    (Rule.TO_MISSING, {"to": b""}),
    (Rule.TO_MISSING, {"to": ""}),
    (Rule.TO_ZERO, {"to": Address(bytes(20))}),
    (Rule.VALUE_OUT_OF_RANGE, {"value_wei": -1}),
    (Rule.VALUE_OUT_OF_RANGE, {"value_wei": 2**256}),
    (Rule.VALUE_OUT_OF_RANGE, {"value_wei": 10**5000}),
    (Rule.DATA_TOO_LONG, {"data": bytes(128 * 1024 + 1)}),
    (Rule.GAS_LIMIT_TOO_LOW, {"gas_limit": 20_999}),
    (Rule.GAS_LIMIT_TOO_HIGH, {"gas_limit": 2**24 + 1}),
    (Rule.MAX_FEE_NOT_POSITIVE, {"max_fee_per_gas_wei": 0, "max_priority_fee_per_gas_wei": 0}),
    (Rule.MAX_FEE_TOO_HIGH, {"max_fee_per_gas_wei": FEE_MAX + 1}),
    (Rule.PRIORITY_FEE_NEGATIVE, {"max_priority_fee_per_gas_wei": -1}),
    (Rule.PRIORITY_FEE_ABOVE_MAX_FEE, {"max_fee_per_gas_wei": 5, "max_priority_fee_per_gas_wei": 6}),
    (Rule.ACCESS_LIST_MALFORMED, {"access_list": None}),
    (Rule.ACCESS_LIST_MALFORMED, {"access_list": []}),
    (Rule.ACCESS_LIST_MALFORMED, {"access_list": ((CONTRACT, (bytes(31),)),)}),
    (Rule.ACCESS_LIST_MALFORMED, {"access_list": ((CONTRACT, [bytes(32)]),)}),
    (Rule.ACCESS_LIST_MALFORMED, {"access_list": ((CONTRACT.value, ()),)}),
    (Rule.ACCESS_LIST_MALFORMED, {"access_list": (CONTRACT,)}),
    (Rule.ACCESS_LIST_MALFORMED, {"access_list": ((CONTRACT,),)}),
    (Rule.ACCESS_LIST_TOO_LONG, {"access_list": ((CONTRACT, (bytes(32),) * 4096),)}),
    (Rule.TRANSACTION_TYPE_UNKNOWN, {"transaction_type": 1}),
    (Rule.TRANSACTION_TYPE_UNKNOWN, {"transaction_type": 3}),
    (Rule.TRANSACTION_TYPE_UNKNOWN, {"transaction_type": -1}),
    (Rule.LEGACY_FEES_DIFFER, LEGACY | {"max_priority_fee_per_gas_wei": 4}),
    (Rule.LEGACY_ACCESS_LIST, LEGACY | {"access_list": ((CONTRACT, ()),)}),
    (Rule.MAX_FEE_TOO_HIGH, LEGACY | {"max_fee_per_gas_wei": FEE_MAX + 1, "max_priority_fee_per_gas_wei": FEE_MAX + 1}),
]
NOT_RESERVED: list[tuple[Rule, dict[str, Any]]] = [
    (Rule.CHAIN_ID_NOT_RESERVED, {"chain_id": 1}),
    (Rule.SIGNER_NOT_RESERVED, {"signer": OTHER_SIGNER}),
    (Rule.NONCE_NOT_RESERVED, {"nonce": 8}),
    (Rule.CALL_NOT_RESERVED, {"call_hash": bytes(32)}),
]


def rules(request: SigningRequest, reservation: Reservation | None = None) -> set[Rule]:
    found = refusals(request, POLICY, reservation or reservation_at(request))
    return {refusal.rule for refusal in found}


def reservation_at(request: SigningRequest) -> Reservation:
    """A reservation that fits the request's place, and the example's call."""
    return Reservation(request.chain_id, request.signer, request.nonce, RESERVED.call_hash)


def test_the_table_below_breaks_every_rule() -> None:
    """Goal: no rule without an example. Method: the tables together name every member of Rule."""
    assert {rule for rule, _ in BROKEN + NOT_RESERVED} == set(Rule)


def test_a_right_request_breaks_none() -> None:
    """Goal: the examples below fail for their one change only. Method: the unchanged request passes."""
    assert refusals(REQUEST, POLICY, RESERVED) == ()


@pytest.mark.parametrize(("rule", "change"), BROKEN)
def test_each_rule_is_broken_alone(rule: Rule, change: dict[str, Any]) -> None:
    """Goal: each rule is reached, by itself, and says what it found. Method: one change to a right request."""
    request = evolve(REQUEST, **change)
    (refusal,) = refusals(request, POLICY, reservation_at(request))
    assert refusal.rule is rule
    assert rule.value in str(refusal)
    assert len(str(refusal)) < 400


@pytest.mark.parametrize(("rule", "change"), NOT_RESERVED)
def test_only_what_was_reserved_is_signed(rule: Rule, change: dict[str, Any]) -> None:
    """Goal: a request beside its lineage is refused. Method: change one field of the reservation."""
    assert rules(REQUEST, evolve(RESERVED, **change)) == {rule}


@pytest.mark.parametrize("change", [{"to": OTHER_SIGNER}, {"value_wei": 4}, {"data": b""}])
def test_another_call_at_the_reserved_nonce_is_refused(change: dict[str, Any]) -> None:
    """Goal: fees may change within a lineage, the effect never (I2). Method: change each part of the call."""
    assert rules(evolve(REQUEST, **change), RESERVED) == {Rule.CALL_NOT_RESERVED}
    assert rules(evolve(REQUEST, max_fee_per_gas_wei=FEE_MAX, gas_limit=21_000, access_list=()), RESERVED) == set()


@pytest.mark.parametrize("name", INTEGERS)
@pytest.mark.parametrize("value", [True, False, 1.0, "1", "0x1", b"\x01", Decimal(1), object()])
def test_what_only_looks_like_an_integer_is_refused(name: str, value: object) -> None:
    """Goal: no type confusion reaches the encoder. Method: lookalikes in every integer field."""
    request = evolve(REQUEST, **{name: value})
    found = refusals(request, POLICY, reservation_at(request))
    assert [(refusal.rule, refusal.field) for refusal in found] == [(Rule.FIELD_TYPE, name)]


@pytest.mark.parametrize("name", ["to", "signer"])
@pytest.mark.parametrize("value", [CONTRACT.checksummed, CONTRACT.value, 1, True, [CONTRACT]])
def test_what_only_looks_like_an_address_is_refused(name: str, value: object) -> None:
    """Goal: an address is an Address. Method: its other spellings in both fields."""
    request = evolve(REQUEST, **{name: value})
    assert rules(request) == {Rule.FIELD_TYPE}


@pytest.mark.parametrize(
    "value", ["0x", "a9059cbb", bytearray(4), memoryview(b"abcd"), None, type("B", (bytes,), {})()]
)
def test_data_is_exactly_bytes(value: object) -> None:
    """Goal: nothing mutable or overridden is hashed and then signed. Method: everything that resembles bytes."""
    request = evolve(REQUEST, data=value)
    assert rules(request) == {Rule.FIELD_TYPE}


def test_a_refusal_never_repeats_an_unexpected_value() -> None:
    """Goal: a key put into the wrong field stays unseen. Method: text in every field, looked for in every refusal."""
    for name in (*INTEGERS, "to", "signer", "data", "access_list"):
        request = evolve(REQUEST, **{name: "0xdeadbeefcafe"})
        told = "; ".join(str(refusal) for refusal in refusals(request, POLICY, RESERVED))
        assert told
        assert "deadbeef" not in told


@pytest.mark.parametrize(
    "change",
    [
        {"nonce": 0},
        {"nonce": 2**64 - 2},
        {"value_wei": 0},
        {"value_wei": 2**256 - 1},
        {"data": b""},
        {"data": bytes(128 * 1024)},
        {"gas_limit": 21_000},
        {"gas_limit": 2**24},
        {"max_fee_per_gas_wei": 1, "max_priority_fee_per_gas_wei": 0},
        {"max_fee_per_gas_wei": FEE_MAX, "max_priority_fee_per_gas_wei": FEE_MAX},
        {"access_list": ()},
        {"to": SIGNER, "value_wei": 0, "data": b""},
        LEGACY,
        LEGACY | {"max_fee_per_gas_wei": FEE_MAX, "max_priority_fee_per_gas_wei": FEE_MAX},
        LEGACY | {"to": SIGNER, "value_wei": 0, "data": b"", "gas_limit": 21_000},
    ],
)
def test_the_bounds_belong_to_the_range(change: dict[str, Any]) -> None:
    """Goal: no bound is off by one; a filler to oneself may be signed. Method: the last right value of each range."""
    request = evolve(REQUEST, **change)
    assert refusals(request, POLICY, reservation_of(request)) == ()


def test_all_broken_rules_are_told_at_once() -> None:
    """Goal: one answer, not a series. Method: break five rules together."""
    request = evolve(REQUEST, chain_id=0, nonce=-1, value_wei=-1, gas_limit=0, max_fee_per_gas_wei=1)
    assert rules(request) == {
        Rule.CHAIN_ID_MISSING,
        Rule.NONCE_OUT_OF_RANGE,
        Rule.VALUE_OUT_OF_RANGE,
        Rule.GAS_LIMIT_TOO_LOW,
        Rule.PRIORITY_FEE_ABOVE_MAX_FEE,
    }


@pytest.mark.parametrize(
    "change",
    [
        {"chain_ids": frozenset()},
        {"chain_ids": frozenset({0})},
        {"max_fee_per_gas_wei_max": 0},
        {"max_fee_per_gas_wei_max": 2**256},
        {"gas_limit_max": 20_999},
        {"gas_limit_max": 2**64},
        {"data_bytes_max": -1},
    ],
)
def test_a_policy_cannot_switch_a_rule_off(change: dict[str, Any]) -> None:
    """Goal: chain id 0 or a limitless fee cannot be configured. Method: senseless policies."""
    with pytest.raises(ValueError, match=next(iter(change))):
        evolve(POLICY, **change)


def _around(*bounds: int) -> st.SearchStrategy[object]:
    near = st.sampled_from([bound + step for bound in bounds for step in (-1, 0, 1)])
    return st.one_of(near, near, near, st.integers(), st.booleans(), st.floats(), st.none(), st.text(max_size=3))


ANYTHING: dict[str, st.SearchStrategy[object]] = {
    "chain_id": _around(0, CHAIN_ID),
    "nonce": _around(0, 2**64 - 2),
    "to": st.one_of(st.just(Address(bytes(20))), st.just(b""), st.text(max_size=2), st.none()),
    "value_wei": _around(0, 2**256),
    "data": st.one_of(st.binary(max_size=80), st.text(max_size=2), st.none()),
    "gas_limit": _around(21_000, 2**24),
    "max_fee_per_gas_wei": _around(0, REQUEST.max_priority_fee_per_gas_wei, FEE_MAX),
    "max_priority_fee_per_gas_wei": _around(0, REQUEST.max_fee_per_gas_wei, FEE_MAX),
    "transaction_type": _around(0, 2),
}


@st.composite
def calls(draw: st.DrawFn) -> SigningRequest:
    """A right request with up to three fields replaced by anything at all, most often a bound or its neighbour."""
    request = draw(right_requests())
    names = draw(st.lists(st.sampled_from(sorted(ANYTHING)), max_size=3, unique=True))
    return evolve(request, **{name: draw(ANYTHING[name]) for name in names})  # type: ignore[arg-type]


def _may_be_signed(request: SigningRequest, policy: SigningPolicy) -> bool:
    """The rules once more, as one expression, written from CTX-1 and not from the code under test."""
    return (
        all(type(getattr(request, name)) is int for name in INTEGERS)
        and isinstance(request.to, Address)
        and isinstance(request.data, bytes)
        and request.chain_id in policy.chain_ids
        and request.to.value != bytes(20)
        and 0 <= request.nonce < 2**64 - 1
        and 0 <= request.value_wei < 2**256
        and 21_000 <= request.gas_limit <= 2**24
        and 0 <= request.max_priority_fee_per_gas_wei <= request.max_fee_per_gas_wei
        and 0 < request.max_fee_per_gas_wei <= policy.max_fee_per_gas_wei_max
        and request.transaction_type in (0, 2)
        and (
            request.transaction_type == 2
            or (request.max_fee_per_gas_wei == request.max_priority_fee_per_gas_wei and not request.access_list)
        )
    )


@settings(deadline=None)
@given(calls())
def test_refused_exactly_when_a_rule_says_so(request: SigningRequest) -> None:
    """Goal: the rules neither miss nor invent. Method: random fields around every bound against a second telling."""
    if _may_be_signed(request, POLICY):
        call = call_hash(request.chain_id, request.to, request.value_wei, request.data)
        assert refusals(request, POLICY, evolve(reservation_at(request), call_hash=call)) == ()
    else:
        found = refusals(request, POLICY, reservation_at(request))
        assert {refusal.rule for refusal in found} - {Rule.CALL_NOT_RESERVED}
