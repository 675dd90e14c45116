"""Which lanes take the next nonces: pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from tayho.kernel.address import Address
from tayho.transactions.types import LaneStatus


def choose_lanes(lanes: Sequence[LaneStatus], cursor: int, depth: int, wanted: int) -> tuple[tuple[Address, ...], int]:
    """Up to `wanted` lanes, in turn from the cursor, skipping those not open or with `depth` nonces in flight.

    Returns fewer than wanted when the room ends, and the cursor for the next call. The lanes come in a stable order.
    """
    room = [_room(lane, depth) for lane in lanes]
    chosen: list[Address] = []
    while len(chosen) < wanted and any(room):
        place = cursor % len(lanes)
        if room[place]:
            room[place] -= 1
            chosen.append(lanes[place].signer)
        cursor += 1
    return tuple(chosen), cursor % len(lanes) if lanes else cursor


def by_preference(chosen: Sequence[Address], preferred: Sequence[Address | None]) -> tuple[Address, ...]:
    """The chosen lanes, as often each as before, in an order that gives as many as possible what they prefer.

    Both have one length. Nothing but who gets which of them changes: which lanes take nonces was decided in turn.
    """
    left = Counter(chosen)
    given: list[Address | None] = []
    for wish in preferred:
        if wish is None or not left[wish]:
            given.append(None)
            continue
        left[wish] -= 1
        given.append(wish)
    rest = _remaining(chosen, left)
    return tuple(next(rest) if signer is None else signer for signer in given)


def _remaining(chosen: Sequence[Address], left: Counter[Address]) -> Iterator[Address]:
    """As many of each as are left, in the order in which they were chosen."""
    for signer in chosen:
        if left[signer]:
            left[signer] -= 1
            yield signer


def _room(lane: LaneStatus, depth: int) -> int:
    """How many nonces the lane may take now: none that the chain shows as used by somebody else, and of an account that
    delegates one at a time, for nodes take no second and no gap from it (EIP-7702)."""
    if lane.state != "open" or (lane.latest_nonce is not None and lane.latest_nonce > lane.next_nonce):
        return 0
    return max((1 if lane.is_delegated else depth) - lane.in_flight, 0)
