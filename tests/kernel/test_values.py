"""The shared values: they parse strictly, compare by meaning and print no secret."""

from __future__ import annotations

import copy
import json
import pickle
import time
import traceback

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tayho.kernel.address import Address, AddressRefused
from tayho.kernel.call_hash import call_hash
from tayho.kernel.ids import new_id
from tayho.kernel.opaque import Opaque
from tayho.kernel.steps import STEPS, on_step, step
from tayho.kernel.transitions import NEW, TABLES

_ADDRESSES = st.binary(min_size=20, max_size=20).map(Address)


@given(_ADDRESSES)
def test_an_address_survives_every_spelling(address: Address) -> None:
    """Goal: case is only how it prints. Method: checksummed, lower and upper case parse to the same value."""
    digits = address.checksummed[2:]
    assert {Address.parse(f"0x{one}") for one in (digits, digits.lower(), digits.upper())} == {address}


@given(_ADDRESSES, st.integers(0, 39))
def test_a_wrong_checksum_is_refused(address: Address, place: int) -> None:
    """Goal: EIP-55 catches a slip. Method: flip the case of one letter of a mixed-case spelling."""
    digits = list(address.checksummed[2:])
    digits[place] = digits[place].swapcase()
    text = "".join(digits)
    assume(text != address.checksummed[2:] and text not in (text.lower(), text.upper()))
    with pytest.raises(AddressRefused):
        Address.parse(f"0x{text}")


@pytest.mark.parametrize("text", ["", "0x", "0x12", "12" * 20, f"0x{'zz' * 20}", f"0x{'12' * 21}", f"0x{' 1' * 20}"])
def test_what_is_no_address_is_refused(text: str) -> None:
    """Goal: nothing is guessed. Method: lengths, prefixes and digits that are wrong."""
    with pytest.raises(AddressRefused):
        Address.parse(text)


_CALLS = st.tuples(st.integers(1, 2**63), _ADDRESSES, st.integers(0, 2**256 - 1), st.binary(max_size=64))


@given(_CALLS, _CALLS)
def test_calls_that_differ_anywhere_have_different_hashes(
    one: tuple[int, Address, int, bytes], other: tuple[int, Address, int, bytes]
) -> None:
    """Goal: the call hash is injective in every part (I2). Method: any two calls, and parts moved between fields."""
    assert (call_hash(*one) == call_hash(*other)) == (one == other)
    chain_id, to, value, data = one
    assert call_hash(chain_id, to, value, data + b"\x00") != call_hash(*one)


def test_ids_are_unique_and_sort_by_time() -> None:
    """Goal: RFC 9562, version 7. Method: many within one millisecond and two across a tick."""
    first = new_id()
    many = {new_id() for _ in range(10_000)}
    until = time.time_ns() // 1_000_000 + 2
    while time.time_ns() // 1_000_000 < until:
        pass
    last = new_id()
    assert len(many) == 10_000
    assert first < last
    assert {(one.version, one.variant) for one in many} == {(7, "specified in RFC 4122")}


def test_opaque_bytes_reach_no_text() -> None:
    """Goal: signed bytes never print. Method: every way in which a value becomes text, and a traceback."""
    raw = Opaque(b"\xde\xad\xbe\xef" * 8)
    told = [repr(raw), str(raw), f"{raw}", f"{[raw]}", json.dumps({"raw": raw}, default=repr)]
    try:
        raise ValueError(raw)
    except ValueError:
        told.append(traceback.format_exc())
    for text in told:
        assert "dead" not in text.lower()
        assert "\\xde" not in text
    with pytest.raises(TypeError):
        pickle.dumps(raw)
    with pytest.raises(TypeError):
        copy.deepcopy(raw)


def test_every_table_is_closed_and_reachable() -> None:
    """Goal: no state is entered that cannot be named, none listed that cannot be reached. Method: walk each table."""
    for table in TABLES.values():
        reached = {NEW}
        for _ in table.arrows:
            reached |= {arrow.target for arrow in table.arrows if arrow.source in reached}
        assert reached - {NEW} == table.states
        assert {arrow.source for arrow in table.arrows} <= table.states | {NEW}
        assert table.terminal <= table.states
        for arrow in table.arrows:
            assert arrow.source not in table.terminal or arrow.operation is not None, arrow


def test_a_step_costs_nothing_without_a_hook_and_tells_its_name_with_one() -> None:
    """Goal: fault injection is off unless it was armed. Method: step, hook, step, unhook, step."""
    seen: list[str] = []
    name = min(STEPS)
    step(name)
    on_step(seen.append)
    step(name)
    on_step(None)
    step(name)
    assert seen == [name]
