"""Another world is told from ours: pure (TX-14)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tayho.kernel.address import Address
from tayho.transactions.world_rules import Anchor, LaneNonces, Ours, Unknown, Wrong, ahead_verdict, world_verdict

ANCHOR = Anchor(100, b"\x0a" * 32)
OTHER = b"\x0b" * 32
SIGNER = Address(b"\x01" * 20)

_LANES = st.lists(
    st.builds(LaneNonces, st.just(SIGNER), st.integers(0, 9), st.one_of(st.none(), st.integers(0, 9))), max_size=4
)


@given(_LANES)
def test_the_anchor_alone_says_whether_the_chain_is_ours(lanes: list[LaneNonces]) -> None:
    """Goal: nonces alone, which a lagging node shows low, halt nothing. Method: any nonces; our block, none told, no
    block, another block."""
    assert world_verdict(ANCHOR, {100: ANCHOR.block_hash}, lanes) == Ours()
    assert world_verdict(ANCHOR, {}, lanes) == Unknown()
    for found in (None, OTHER):
        verdict = world_verdict(ANCHOR, {100: found}, lanes)
        assert isinstance(verdict, Wrong)
        assert verdict.evidence["block_number"] == 100
        assert len(verdict.evidence["lanes"]) == len(lanes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("found", "nonces", "kind"),
    [
        (None, (5, 5), "chain_reset"),
        (OTHER, (5, 4), "chain_reset"),
        (OTHER, (5, 5), "chain_unknown"),
        (OTHER, (5, None), "chain_unknown"),
    ],
)
def test_a_new_beginning_is_told_from_another_chain(
    found: bytes | None, nonces: tuple[int, int | None], kind: str
) -> None:
    """Goal: the word fits the finding. Method: the table of blocks and nonces."""
    verdict = world_verdict(ANCHOR, {100: found}, [LaneNonces(SIGNER, *nonces)])
    assert isinstance(verdict, Wrong)
    assert verdict.kind == kind


@given(_LANES)
def test_a_chain_ahead_at_start_halts(lanes: list[LaneNonces]) -> None:
    """Goal: nothing is sent by whoever cannot know whose nonces those were. Method: any lanes; a halt exactly where all
    are seen and one is ahead; the evidence names each that is."""
    verdict = ahead_verdict(lanes)
    ahead = [lane for lane in lanes if lane.chain_nonce is not None and lane.chain_nonce > lane.fence]
    if any(lane.chain_nonce is None for lane in lanes):
        assert verdict == Unknown()
    elif ahead:
        assert isinstance(verdict, Wrong)
        assert verdict.kind == "chain_ahead"
        assert len(verdict.evidence["lanes"]) == len(ahead)  # type: ignore[arg-type]
    else:
        assert verdict == Ours()
