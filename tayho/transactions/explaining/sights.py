"""What the nodes that were asked come to: pure. An indication for people; what decides is a quorum's word."""

from __future__ import annotations

from datetime import datetime, timedelta

from tayho.transactions.explaining.types import LineageFacts
from tayho.transactions.resending_rules import last_no, wait_ticks
from tayho.transactions.types import MemberRecord


def included_at(facts: LineageFacts) -> int | None:
    """Where it was seen: by the reconciler's quorum, or by most of the nodes that were asked just now."""
    if facts.whole.included_block_number is not None:
        return facts.whole.included_block_number
    places = [
        next((one.block_number for one in node.members if one.block_number is not None), None)
        for node in facts.nodes
        if node.problem is None
    ]
    known = [place for place in places if place is not None]
    return max(set(known), key=known.count) if 2 * len(known) > len(places) else None


def any_receipt(facts: LineageFacts) -> bool:
    return any(one.block_number is not None for node in facts.nodes for one in node.members)


def head_of(facts: LineageFacts) -> int | None:
    return majority([node.head_block_number for node in facts.nodes])


def majority(numbers: list[int | None]) -> int | None:
    """What most of those who answered have reached at least."""
    known = sorted((number for number in numbers if number is not None), reverse=True)
    return known[len(known) // 2] if known else None


def last_word(facts: LineageFacts, active: MemberRecord) -> str:
    """The newest answer to the active transaction; broadcasts come newest first."""
    for one in facts.whole.broadcasts:
        if one.tx_hash == active.tx_hash:
            detail = "" if one.detail is None else f" ({one.detail})"
            return f"{one.endpoint} answered {one.reason or one.answer}{detail} at {clock(one.answered_at)}"
    return ""


def resent_at(facts: LineageFacts, active: MemberRecord) -> datetime:
    """When the active transaction goes out again at the latest, if nothing better happens; a cause that is seen to end
    makes it earlier."""
    answers = [one for one in facts.whole.broadcasts if one.tx_hash == active.tx_hash]
    said = last_no([one.reason or one.answer for one in answers])
    if said is None:
        return facts.whole.check_at
    wait = timedelta(seconds=wait_ticks(said.in_a_row) * facts.rules.reconcile_seconds)
    return max(facts.whole.check_at, answers[0].answered_at + wait)


def problems(facts: LineageFacts) -> str:
    return "; ".join(f"{node.endpoint}: {node.problem}" for node in facts.nodes if node.problem) or "none was asked"


def clock(at: datetime) -> str:
    """An instant in UTC, to the second; rounded up, so that what is said to be over then is."""
    return f"{at + timedelta(seconds=1) if at.microsecond else at:%Y-%m-%d %H:%M:%S}Z"
