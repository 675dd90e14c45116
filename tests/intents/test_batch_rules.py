"""How much one transaction carries, and what its logs must say (INT-5, INT-6, INT-7)."""

from __future__ import annotations

from datetime import UTC, datetime
from uuid import UUID

import pytest
from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st

from tayho.intents.batch_rules import (
    CALL_DATA_BYTES_MAX,
    GAS_LIMIT_MAX,
    Entry,
    Estimated,
    Sized,
    Unbatchable,
    Undecided,
    before_execution,
    carried,
    fits,
    gas_cap,
    gas_of,
    judge,
    largest_prefix,
    plan,
)
from tayho.intents.types import BatchSettings, Carried, ChildResult, SignedIntent, Waiting
from tayho.kernel.address import Address
from tayho.kinds import ResultMissing
from tayho.protocol.batches import CHILD_OVERHEAD_GAS, ReferenceExecutor
from tests.intents.conftest import intent

CONTRACT = ReferenceExecutor(Address(b"\x80" * 20), Address(b"\x70" * 20))
SETTINGS = BatchSettings(100, 64, 2_000, 2_500, GAS_LIMIT_MAX)
NOW = datetime(2026, 12, 1, tzinfo=UTC)
BATCH, OTHER = b"\x0b" * 32, b"\x0c" * 32

signatures = st.binary(min_size=65, max_size=65)
payloads = st.one_of(st.binary(max_size=80), st.sampled_from([b"\xff" * 4_096, bytes(4_096)]))
children = st.lists(
    st.builds(
        lambda payload, signature, stipend: Carried(SignedIntent(intent(payload=payload), signature), stipend),
        payloads,
        signatures,
        st.integers(1, 6_000_000),
    ),
    max_size=70,
)
caps = st.integers(100_000, GAS_LIMIT_MAX)


def waiting(number: int, payload: bytes = b"") -> Waiting:
    signed = SignedIntent(intent(number, payload=payload), b"\x01" * 65)
    return Waiting(UUID(int=number + 1), number.to_bytes(32, "big"), signed, NOW)


def tokens(call_data: bytes) -> int:
    return sum(4 if byte else 1 for byte in call_data)


@settings(max_examples=40)
@given(line=children, cap=caps, items_max=st.integers(1, 64))
def test_the_largest_prefix_fits_and_one_more_does_not(line: list[Carried], cap: int, items_max: int) -> None:
    """Goal: INT-5: as many as fit and never more, by the contract's own arithmetic. Method: any line; what is chosen
    leaves each child what the contract asks for, within every bound, and the next child would break one."""
    chosen = line[: largest_prefix(CONTRACT, line, items_max, cap)]
    call_data = CONTRACT.call_data(BATCH, chosen)
    asked = sum(child.gas_stipend + child.gas_stipend // 63 + CHILD_OVERHEAD_GAS for child in chosen)
    if chosen:
        assert 21_000 + 4 * tokens(call_data) + asked <= gas_of(CONTRACT, chosen) <= cap <= 2**24
        assert gas_of(CONTRACT, chosen) >= 21_000 + 10 * tokens(call_data)
        assert len(call_data) <= CALL_DATA_BYTES_MAX
    assert len(chosen) <= items_max
    if len(chosen) < min(len(line), items_max):
        assert not fits(CONTRACT, line[: len(chosen) + 1], cap)


@settings(max_examples=25)
@given(line=children.filter(bool), cap=caps)
def test_more_gas_never_carries_less(line: list[Carried], cap: int) -> None:
    """Goal: the choice is monotone. Method: each prefix costs more than the one before; a greater cap chooses no less,
    and a smaller stipend of any child neither."""
    costs = [gas_of(CONTRACT, line[:count]) for count in range(1, len(line) + 1)]
    assert costs == sorted(set(costs))
    chosen = largest_prefix(CONTRACT, line, 64, cap)
    assert largest_prefix(CONTRACT, line, 64, min(cap + 500_000, GAS_LIMIT_MAX)) >= chosen
    smaller = [evolve(child, gas_stipend=-(-child.gas_stipend // 2)) for child in line]
    assert largest_prefix(CONTRACT, smaller, 64, cap) >= chosen


@settings(max_examples=100)
@given(gas=st.integers(21_000, 20_000_000), cap=caps, payload=payloads)
def test_a_stipend_is_what_was_needed_with_its_buffer_or_what_there_is_room_for(
    gas: int, cap: int, payload: bytes
) -> None:
    """Goal: INT-5, INT-6: never less than it needed alone, and a batch of it alone always fits; whoever needs more than
    any batch has is told so. Method: any estimate, any cap."""
    one = waiting(0, payload)
    needed = max(gas - before_execution(CONTRACT.alone(one.signed, cap).data), 1)
    found = carried(CONTRACT, one, Estimated(gas), SETTINGS, cap)
    if isinstance(found, Carried):
        assert needed <= found.gas_stipend <= -(-needed * 12 // 10)
        assert fits(CONTRACT, [found], cap)
    else:
        assert found.code == "too_much_gas"
        # But for what an unknown stipend may cost to send.
        assert not fits(CONTRACT, [Carried(one.signed, needed + 100)], cap)


SIZES: dict[str, Sized] = {
    "e": Estimated(150_000),
    "u": Unbatchable("would_revert", "IntentSpent"),
    "?": Undecided("no node answers"),
}


@pytest.mark.parametrize(
    ("line", "items_max", "taken"),
    [
        ("eee", 64, "ccc"),
        ("ueue", 64, "ucuc"),
        ("uuu", 64, "uuu"),
        ("e?e", 64, "c"),
        ("?ee", 64, ""),
        ("eeee", 2, "cc"),
        ("eueue", 2, "cucu"),
        ("eeu", 2, "ccu"),
    ],
)
def test_the_front_of_the_line_is_taken_in_order(line: str, items_max: int, taken: str) -> None:
    """Goal: FIFO exactly: nobody is passed by but those who can never be carried, and whoever cannot be found out about
    holds up who is behind. Method: lines of each."""
    asked = [(waiting(number), SIZES[one]) for number, one in enumerate(line)]
    entries = plan(CONTRACT, asked, evolve(SETTINGS, items_max=items_max), GAS_LIMIT_MAX)
    assert [entry.waiting for entry in entries] == [one for one, _ in asked[: len(entries)]]
    assert "".join(_letter(entry) for entry in entries) == taken


def _letter(entry: Entry) -> str:
    return "c" if isinstance(entry.verdict, Carried) else "u"


def test_the_cap_is_the_least_of_three() -> None:
    """Goal: the live block's share, the absolute cap, and EIP-7825. Method: each the least in its turn."""
    assert gas_cap(30_000_000, SETTINGS) == 7_500_000
    assert gas_cap(30_000_000, evolve(SETTINGS, gas_max=1_000_000)) == 1_000_000
    assert gas_cap(10**9, evolve(SETTINGS, gas_max=10**9)) == 2**24


DIGESTS = [bytes([number]) * 32 for number in range(3)]
GOOD = [ChildResult(BATCH, number, digest, number != 1, b"\x0d" * 32) for number, digest in enumerate(DIGESTS)]


@given(st.permutations(GOOD))
def test_each_child_has_its_own_log(logs: list[ChildResult]) -> None:
    """Goal: results go by index, in whatever order they come. Method: all orders."""
    assert judge(BATCH, DIGESTS, logs) == GOOD


@pytest.mark.parametrize(
    ("logs", "reason"),
    [
        pytest.param([], r"nothing of children \[0, 1, 2\]", id="none"),
        pytest.param(GOOD[:2], r"nothing of children \[2\]", id="missing"),
        pytest.param([*GOOD, GOOD[1]], "child 1 twice", id="duplicate"),
        pytest.param([*GOOD, evolve(GOOD[1], succeeded=True)], "child 1 twice", id="two results"),
        pytest.param([*GOOD, evolve(GOOD[0], child_index=3)], "child 3 of 3", id="one too many"),
        pytest.param([*GOOD[:2], evolve(GOOD[2], digest=DIGESTS[0])], "it is another", id="foreign digest"),
        pytest.param([*GOOD[:2], evolve(GOOD[2], batch_id=OTHER)], "another batch", id="foreign batch"),
        pytest.param([*GOOD, evolve(GOOD[2], batch_id=OTHER)], "another batch", id="one of another batch"),
    ],
)
def test_what_is_missing_double_or_foreign_is_no_result(logs: list[ChildResult], reason: str) -> None:
    """Goal: INT-7 fails closed. Method: the right logs, spoiled in each way."""
    with pytest.raises(ResultMissing, match=reason):
        judge(BATCH, DIGESTS, logs)
