"""What a fault of the matrix is, and what a side may answer under it."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Literal, TypeAlias

from attrs import frozen

from tests.rpc.front.behaviours import Arming

Way: TypeAlias = Literal["read", "hedged read", "vote", "finality"]
Placement: TypeAlias = Literal["first", "second", "all", "two of five"]
Question: TypeAlias = Literal["nonce", "receipt", "block", "head", "call", "batch"]

WAYS: tuple[Way, ...] = ("read", "hedged read", "vote", "finality")
READS: tuple[Way, ...] = ("read", "hedged read")
DECISIONS: tuple[Way, ...] = ("vote", "finality")
PLACEMENTS: tuple[Placement, ...] = ("first", "second", "all")


class Must(enum.Enum):
    """What is green. The right value always is; a wrong one, an exception without a name, or no answer never."""

    BE_RIGHT = "right"
    NOT_BE_WRONG = "right or refused by name"
    NOT_BE_WRONG_OR_NULL = "right, not there yet, or refused by name"


Demands: TypeAlias = Mapping[tuple[Way, Placement], Must]


@frozen
class Fault:
    """One fault: how a front is armed with it, what is asked under it, and what is demanded in each of its cells.

    A cell that `demands` does not hold is not judged: there the lie cannot be told from the truth by anyone.
    """

    name: str
    group: str
    arm: Arming
    demands: Demands
    # What a read asks, and what is voted on. Finality asks what it needs.
    read: Question = "nonce"
    vote: Question = "receipt"


def demands(
    *, one: Must | None = Must.BE_RIGHT, every: Must | None = Must.NOT_BE_WRONG, ways: tuple[Way, ...] = WAYS
) -> Demands:
    """The same demands whichever way is asked: with one faulty endpoint, and with every endpoint faulty."""
    of_one = {(way, place): one for way in ways for place in PLACEMENTS if place != "all" and one is not None}
    return of_one | ({} if every is None else {(way, "all"): every for way in ways})


# No usable answer comes from the endpoint: whatever is asked, another one serves; all of them are told by name.
BROKEN = demands()
# The endpoint lies in good form: one answer cannot be told from the truth, two of three can. All that lie alike win.
LIES = demands(every=None, ways=DECISIONS)
# Each endpoint lies in its own way: nothing is agreed.
LIES_APART = demands(ways=DECISIONS)
