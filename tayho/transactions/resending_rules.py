"""When bytes that no node has taken are sent again: pure (TX-4).

Nothing is given up by waiting: receipts are looked up at every tick all the same. Only the next no comes later.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile

from attrs import frozen

from tayho.transactions.types import Said

# The longest wait: a minute where TX_RECONCILE_SECONDS is five.
WAIT_TICKS_MAX = 12
# As many answers of one kind in a row as make the longest wait; older ones change nothing.
ANSWERS_MAX = 6
_YES = frozenset({"accepted", "already_known"})
_TOO_CHEAP = frozenset({"below_base_fee", "underpriced"})


@frozen
class Surroundings:
    """What of the chain and the lane may have ended the cause of a no."""

    # The chain waits for this very nonce.
    is_next: bool
    # The base fee is within what the transaction pays, and at the last look it was not, or nobody had looked.
    pays_again: bool
    # Its lane's balance was not found short.
    is_funded: bool


def last_no(reasons: Sequence[str]) -> Said | None:
    """From the answers to one transaction, the newest first; None where none was given, or the last was a yes."""
    if not reasons or reasons[0] in _YES:
        return None
    return Said(reasons[0], sum(1 for _ in takewhile(lambda reason: reason == reasons[0], reasons)))


def pays_again(fee_wei: int, before_wei: int | None, base_fee_wei: int | None) -> bool:
    """Whether a block could take the fee now, and could not at the base fee of the look before, or nobody looked.

    Where there is no base fee, nothing tells.
    """
    return base_fee_wei is not None and fee_wei >= base_fee_wei and (before_wei is None or fee_wei < before_wei)


def wait_ticks(in_a_row: int) -> int:
    """How many ticks of the reconciler lie between the last of so many equal answers and the next send."""
    return int(min(2 ** (min(in_a_row, ANSWERS_MAX) - 1), WAIT_TICKS_MAX))


def is_due(said: Said | None, seconds_ago: float, around: Surroundings, tick_seconds: float) -> bool:
    """Whether the bytes go out at this tick.

    At once where nothing was said to them yet, where a node had taken them and shows them no more, and where the cause
    of the no is seen to be gone; else ever less often. `seconds_ago` is how long ago the last word was said.
    """
    if said is None:
        return True
    match said.reason:
        case reason if reason in _TOO_CHEAP and around.pays_again:
            return True
        case "insufficient_funds" if around.is_funded:
            return True
        case "nonce_too_high" if around.is_next:
            return True
        case _:
            # Less one: this look is itself a tick after the one before, but for the moment that the answer took.
            return seconds_ago >= (wait_ticks(said.in_a_row) - 1) * tick_seconds
