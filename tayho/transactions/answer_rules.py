"""What a class of answers means for a lineage: pure (TX-4). Nothing here can say that signed bytes are given up."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType

from attrs import frozen

from tayho.transactions.types import AnswerReason, Hold

# What a node's words set and a node's yes clears. The other holds are others' to set and to clear.
ANSWER_HOLDS: tuple[Hold, ...] = ("underfunded", "limits", "refused")


class Next(Enum):
    """Who moves the lineage on."""

    CONFIRM = "confirm"  # a receipt ends it
    LOOK = "look"  # the receipts of every member are looked up: one of them, or a stranger, has the nonce
    RESEND = "resend"  # the same bytes, again, lowest nonce first
    REPLACE = "replace"  # higher fees at the same nonce; the old bytes go out until then
    OPERATOR = "operator"  # it does not move by itself; the bytes go out all the same


@frozen
class Consequence:
    """What follows for the lineage. Its bytes stay in every case."""

    next: Next
    meaning: str
    # Sent, and nobody has said yes or no to it.
    is_doubt: bool = False
    hold: Hold | None = None
    # The lane takes no new work until its balance was seen to suffice.
    closes_lane: bool = False

    @property
    def releases(self) -> bool:
        """A yes ends whatever hold an earlier answer set."""
        return self.next is Next.CONFIRM


def consequence(reason: AnswerReason) -> Consequence:
    """What an answer of this class means. Every class has its entry."""
    return CONSEQUENCES[reason]


CONSEQUENCES: Mapping[AnswerReason, Consequence] = MappingProxyType(
    {
        "accepted": Consequence(Next.CONFIRM, "the node has the bytes; only a receipt proves that it keeps them"),
        "already_known": Consequence(Next.CONFIRM, "the node has these very bytes"),
        "nonce_too_low": Consequence(Next.LOOK, "the nonce is used: every member's receipt is looked up by quorum"),
        "nonce_too_high": Consequence(Next.RESEND, "a lower nonce is missing at this node: sent again after it"),
        "replacement_underpriced": Consequence(Next.REPLACE, "another transaction stands at the nonce, and pays more"),
        "underpriced": Consequence(Next.REPLACE, "below what this node takes: replaced at higher fees when it is due"),
        "below_base_fee": Consequence(Next.REPLACE, "below the base fee: replaced at higher fees when it is due"),
        "insufficient_funds": Consequence(
            Next.OPERATOR, "the signer's balance is short: the lane waits for it", hold="underfunded", closes_lane=True
        ),
        "node_fee_cap": Consequence(
            Next.OPERATOR, "above what this one node lets a transaction cost: another may take it", hold="limits"
        ),
        "gas_too_high": Consequence(Next.OPERATOR, "its gas limit is above the block's or the node's", hold="limits"),
        "gas_too_low": Consequence(Next.OPERATOR, "its gas limit is below what it costs to begin", hold="limits"),
        "pool_full": Consequence(Next.RESEND, "the node's pool has no room now"),
        "sender_limited": Consequence(Next.RESEND, "the node takes no more of this signer now"),
        "terminally_stuck": Consequence(
            Next.OPERATOR, "this chain's prover can never carry it out: cancel it", hold="refused"
        ),
        "fatal": Consequence(Next.OPERATOR, "refused for what it is, not for when it came", hold="refused"),
        "retry_elsewhere": Consequence(Next.RESEND, "the node could not serve now", is_doubt=True),
        "ambiguous": Consequence(Next.RESEND, "no yes and no no: the same bytes are sent again", is_doubt=True),
    }
)
