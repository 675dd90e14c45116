"""The engine's pure decisions: lanes, answers, reconciliation."""

from __future__ import annotations

from collections import Counter

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from rpc.errors import DeadlinePassed, EndpointFault, RpcRefused
from rpc.values import Receipt
from tayho.kernel.address import Address
from tayho.kernel.ids import new_id
from tayho.transactions.broadcast import classify
from tayho.transactions.reconcile_rules import (
    ChainView,
    Final,
    Included,
    OpenLineage,
    OpenMember,
    Resend,
    Unseen,
    Wait,
    decide,
    inclusion_changes,
)
from tayho.transactions.round_robin import by_preference, choose_lanes
from tayho.transactions.types import Fee, LaneStatus

SIGNER = Address(b"\x01" * 20)
HASH, OTHER_HASH = b"\xaa" * 32, b"\xbb" * 32

_LANES = st.lists(
    st.builds(
        LaneStatus,
        signer=st.binary(min_size=20, max_size=20).map(Address),
        state=st.sampled_from(["open", "draining", "blocked", "underfunded"]),
        state_reason=st.none(),
        next_nonce=st.integers(0, 100),
        in_flight=st.integers(0, 20),
    ),
    max_size=6,
    unique_by=lambda lane: lane.signer,
)


@given(_LANES, st.integers(0, 1_000), st.integers(1, 16), st.integers(0, 100))
def test_lanes_are_chosen_in_turn_and_never_beyond_their_room(
    lanes: list[LaneStatus], cursor: int, depth: int, wanted: int
) -> None:
    """Goal: TX-1's round robin skips what is busy or closed, and uses all the room there is. Method: any pool."""
    chosen, moved = choose_lanes(lanes, cursor, depth, wanted)
    room = {lane.signer: max(depth - lane.in_flight, 0) if lane.state == "open" else 0 for lane in lanes}
    taken = Counter(chosen)
    assert len(chosen) == min(wanted, sum(room.values()))
    assert all(taken[signer] <= room[signer] for signer in taken)
    assert not lanes or 0 <= moved < len(lanes)


_SIGNERS = st.sampled_from([Address(bytes([number]) * 20) for number in range(1, 5)])


@given(st.lists(st.tuples(_SIGNERS, st.none() | _SIGNERS), max_size=20))
def test_preferences_change_who_gets_which_lane_and_nothing_else(pairs: list[tuple[Address, Address | None]]) -> None:
    """Goal: the lane that was simulated with is the lane that signs, as often as can be, and no lane takes more nonces
    than it was chosen for. Method: any choice and any wishes; without a wish the order is as it was."""
    chosen, preferred = [one for one, _ in pairs], [wish for _, wish in pairs]
    given_out = by_preference(chosen, preferred)
    assert Counter(given_out) == Counter(chosen)
    possible = sum((Counter(chosen) & Counter(wish for wish in preferred if wish is not None)).values())
    assert sum(got == wish for got, wish in zip(given_out, preferred, strict=True)) >= possible
    assert by_preference(chosen, [None] * len(chosen)) == tuple(chosen)


def test_two_equal_lanes_take_turns_across_calls() -> None:
    """Goal: the cursor carries the turn over. Method: six calls for one lane each on two lanes."""
    lanes = [LaneStatus(Address(bytes([number]) * 20), "open", None, 0, 0) for number in (1, 2)]
    cursor = 0
    order: list[Address] = []
    for _ in range(6):
        chosen, cursor = choose_lanes(lanes, cursor, 16, 1)
        order += chosen
    assert order == [lanes[0].signer, lanes[1].signer] * 3


@pytest.mark.parametrize(
    "message",
    [
        "already known",
        "Already known",
        "ALREADYKNOWN",
        "known transaction: 0xabc",
        "Known transaction",
        "transaction already imported",
        "tx already exists in cache",
        "existing txn with same hash",
    ],
)
def test_already_known_is_success_in_every_clients_words(message: str) -> None:
    """Goal: our own transaction in the pool is no failure (TX-4). Method: the words of the clients, any case."""
    assert classify(HASH, RpcRefused(-32000, message)).kind == "already_known"


@pytest.mark.parametrize("message", ["unknown transaction", "nonce too low", "insufficient funds for gas * price"])
def test_other_refusals_leave_the_state_as_it_is(message: str) -> None:
    """Goal: nothing but a yes counts as out. Method: refusals that resemble a yes, and those that do not."""
    answer = classify(HASH, RpcRefused(-32000, message))
    assert answer.kind == "refused"
    assert not answer.is_out


def test_a_fault_or_another_hash_proves_nothing() -> None:
    """Goal: a timeout is not a rejection, and a wrong hash not an acceptance. Method: one of each."""
    assert classify(HASH, EndpointFault("node", DeadlinePassed(1, "body"))).kind == "unknown"
    assert classify(HASH, OTHER_HASH).kind == "unknown"
    assert classify(HASH, HASH).kind == "accepted"


def _receipt(tx_hash: bytes = HASH, number: int = 10, block_hash: bytes = b"\x10" * 32) -> Receipt:
    return Receipt(
        transaction_hash=tx_hash,
        transaction_index=0,
        block_hash=block_hash,
        block_number=number,
        status=1,
        post_state_root=None,
        sender=SIGNER.value,
        to=SIGNER.value,
        contract_address=None,
        gas_used=21_000,
        cumulative_gas_used=21_000,
        effective_gas_price_wei=1,
        logs=(),
        type=2,
    )


MEMBERS = tuple(
    OpenMember(tx_hash, number, "broadcast", False, 2, 21_000, Fee(2 * number, number))
    for number, tx_hash in enumerate((HASH, OTHER_HASH), start=1)
)
LINEAGE = OpenLineage(new_id(), "call", new_id(), SIGNER, 5, "broadcast", None, MEMBERS)
VIEW = ChainView(
    head_block_number=22,
    canonical_hashes={10: b"\x10" * 32},
    receipts={HASH: _receipt(), OTHER_HASH: None},
    latest_nonces={SIGNER: 6},
    pending_nonces={SIGNER: 6},
)


def test_a_receipt_is_final_at_exactly_the_confirmations() -> None:
    """Goal: I9's depth is neither rounded nor off by one. Method: one block short, and at it."""
    assert decide(LINEAGE, VIEW, 12) == Final(HASH, _receipt())
    assert decide(LINEAGE, evolve(VIEW, head_block_number=21), 12) == Included(10)


def test_a_receipt_of_a_block_that_is_not_canonical_decides_nothing() -> None:
    """Goal: an orphaned block's receipt is no evidence. Method: another hash at its height."""
    assert decide(LINEAGE, evolve(VIEW, canonical_hashes={10: b"\x99" * 32}), 12) == Wait()


def test_what_could_not_be_read_decides_nothing() -> None:
    """Goal: one unreadable answer stops its own lineage alone, and never looks like an absence. Method: take each part
    of the view away."""
    for change in (
        {"receipts": {HASH: _receipt()}},
        {"receipts": {}},
        {"canonical_hashes": {}},
        {"latest_nonces": {}},
        {"pending_nonces": {}},
    ):
        assert decide(LINEAGE, evolve(VIEW, **change), 12) == Unseen()
    assert inclusion_changes([evolve(LINEAGE, included_block_number=10)], [Unseen()]) == []


def test_any_member_may_be_the_mined_one() -> None:
    """Goal: an older member that is mined ends the lineage. Method: the receipt of either member."""
    for tx_hash in LINEAGE.tx_hashes:
        view = evolve(VIEW, receipts={HASH: None, OTHER_HASH: None, tx_hash: _receipt(tx_hash)})
        assert decide(LINEAGE, view, 12) == Final(tx_hash, _receipt(tx_hash))


def test_without_a_receipt_only_what_no_node_shows_is_sent_again() -> None:
    """Goal: TX-5. Method: the four pictures that a pending transaction can show."""
    unmined = evolve(
        VIEW, receipts={HASH: None, OTHER_HASH: None}, latest_nonces={SIGNER: 5}, pending_nonces={SIGNER: 6}
    )
    dropped = evolve(unmined, pending_nonces={SIGNER: 5})
    consumed = evolve(unmined, latest_nonces={SIGNER: 6})
    assert decide(LINEAGE, unmined, 12) == Wait()
    assert decide(LINEAGE, dropped, 12) == Resend(OTHER_HASH)
    assert decide(evolve(LINEAGE, state="signed"), unmined, 12) == Resend(OTHER_HASH)
    # A lagging receipt index and a foreign transaction look the same: nothing may be concluded from it.
    assert decide(LINEAGE, consumed, 12) == Wait()


def test_a_vanished_inclusion_is_noted_as_gone() -> None:
    """Goal: a lane's room is counted from what the chain shows now. Method: seen, seen again, moved, gone, final."""
    seen = evolve(LINEAGE, included_block_number=10)
    pairs = [
        (LINEAGE, Included(10)),
        (seen, Included(10)),
        (seen, Included(11)),
        (seen, Wait()),
        (seen, Final(HASH, _receipt())),
    ]
    changes = inclusion_changes([lineage for lineage, _ in pairs], [decision for _, decision in pairs])
    assert changes == [(LINEAGE.lineage_id, 10), (seen.lineage_id, 11), (seen.lineage_id, None)]
