"""Why is this transaction not final? A pure decision over what PostgreSQL and the nodes said."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from attrs import frozen

from tayho.transactions.explaining.sights import (
    any_receipt,
    clock,
    head_of,
    included_at,
    last_word,
    majority,
    problems,
    resent_at,
)
from tayho.transactions.explaining.types import (
    LineageFacts,
    MemberSeen,
    TxCause,
    TxExplanation,
    TxReason,
)
from tayho.transactions.types import Hold, MemberRecord

_TERMINAL = frozenset({"mined", "reverted", "cancelled", "superseded", "abandoned"})


@frozen
class _Found:
    """One cause, what to do about it, and when it passes by itself."""

    code: TxCause
    sentence: str
    next_action: str
    next_at: datetime | None = None


def explain_lineage(facts: LineageFacts) -> TxExplanation:
    """Every cause that holds, the one to look at first in front. What no node could say decides nothing."""
    found = list(_causes(facts))
    first = found[0]
    whole = facts.whole
    return TxExplanation(
        lineage_id=whole.lineage_id,
        job_id=whole.job_id,
        state=whole.state,
        summary=first.sentence,
        causes=tuple(TxReason(one.code, one.sentence) for one in found),
        next_action=first.next_action,
        next_at=first.next_at,
        facts=facts,
    )


def _causes(facts: LineageFacts) -> Iterator[_Found]:
    whole = facts.whole
    if whole.state in _TERMINAL:
        yield _final(facts)
        return
    yield from _halted(facts)
    included = included_at(facts)
    if included is not None:
        # What waits for a person does not wait for blocks.
        yield from _held(facts) if whole.hold == "result_missing" else (_confirming(facts, included),)
        return
    yield from _reorganised(facts)
    yield from _held(facts)
    if whole.state == "allocated":
        yield _allocated(facts)
    else:
        yield from _behind(facts)
        yield _signed(facts, whole.members[-1])
    if whole.cancel_requested_at is not None:
        yield _Found(
            TxCause.CANCEL_REQUESTED,
            f"An operator wants it cancelled since {clock(whole.cancel_requested_at)}: whichever is mined decides.",
            "wait for a block",
        )
    if facts.lane.state != "open":
        because = "" if facts.lane.state_reason is None else f" ({facts.lane.state_reason})"
        yield _Found(
            TxCause.LANE_HELD,
            f"Its lane is {facts.lane.state}{because}: it takes nothing new; what it has goes on.",
            "see `tayho lanes`",
        )


def _final(facts: LineageFacts) -> _Found:
    whole = facts.whole
    when = "" if whole.ended_at is None else f" at {clock(whole.ended_at)}"
    where = "" if whole.included_block_number is None else f", in block {whole.included_block_number}"
    why = "" if whole.state_reason is None else f": {whole.state_reason}"
    head = head_of(facts)
    revivable = (
        whole.included_block_number is not None
        and head is not None
        and head - whole.included_block_number < facts.rules.reorg_lookback_blocks
    )
    action = "nothing; until the reorganisation lookback is behind it, a block that vanishes revives it"
    return _Found(
        TxCause.FINAL,
        f"It has ended{when}: {whole.state}{where}{why}.",
        action if revivable else "investigate by hand" if whole.state == "superseded" else "nothing",
    )


def _halted(facts: LineageFacts) -> Iterator[_Found]:
    for halt in facts.halts:
        yield _Found(
            TxCause.HALTED,
            f"Its pool is halted since {clock(halt.raised_at)} ({halt.kind}, found by {halt.raised_by}): nothing is "
            "signed, sent or finalised.",
            "read the evidence in `/readyz`, and resolve the halt: docs/operations.md",
        )


def _confirming(facts: LineageFacts, included: int) -> _Found:
    head = head_of(facts)
    final_at = included + facts.rules.confirmations
    depth = "" if head is None else f"; the head is {head}, so {max(final_at - head, 0)} more are needed"
    return _Found(
        TxCause.WAITING_FOR_CONFIRMATIONS,
        f"It was seen in block {included} and is final at block {final_at}{depth}.",
        "nothing: the reconciler ends it",
    )


def _reorganised(facts: LineageFacts) -> Iterator[_Found]:
    told = [event for event in facts.whole.events if event.kind in _TERMINAL or event.kind == "un_mined"]
    if told and told[-1].kind == "un_mined":
        yield _Found(
            TxCause.REORGANISED,
            f"A reorganisation took its block away at {clock(told[-1].occurred_at)}; the same bytes are sent again.",
            "nothing: the reconciler sends it and waits for another block",
            facts.whole.check_at,
        )


_HOLDS: dict[Hold, tuple[TxCause, str, str]] = {
    "underfunded": (TxCause.UNDERFUNDED, "Its signer cannot pay for it", "fund the signer; the bytes go out again"),
    "limits": (TxCause.LIMITS, "Its gas or fee is outside of what a node takes", "raise that limit, or cancel it"),
    "refused": (TxCause.REFUSED, "A node refuses it for what it is", "read the answer; then `tayho tx cancel`"),
    "fee_capped": (
        TxCause.FEE_CAPPED,
        "The market asks for more than TX_MAX_FEE_PER_GAS_WEI",
        "wait for the market, or raise the ceiling; the last bytes go out until then",
    ),
    "replacements_spent": (
        TxCause.REPLACEMENTS_SPENT,
        "It was replaced as often as TX_MAX_REPLACEMENTS allows",
        "`tayho tx bump` or `tayho tx cancel`; the last bytes go out until then",
    ),
    "nonce_used": (
        TxCause.NONCE_USED,
        "Its nonce is used and no receipt is of any transaction signed for it",
        "find out who else holds the key; the reconciler looks on",
    ),
    "result_missing": (
        TxCause.RESULT_MISSING,
        "It is mined, and its logs do not say what its kind needs of them",
        "look at the contract that it called; nothing is guessed, and a release that can read the logs ends it",
    ),
}


def _held(facts: LineageFacts) -> Iterator[_Found]:
    whole = facts.whole
    if whole.hold is not None:
        code, sentence, action = _HOLDS[whole.hold]
        since = "" if whole.held_at is None else f" since {clock(whole.held_at)}"
        # The newest bytes go out all the same, and whatever ended the cause meanwhile shows in the answer.
        yield _Found(code, f"{sentence}{since}: {whole.hold_reason}.", action, resent_at(facts, whole.members[-1]))


def _allocated(facts: LineageFacts) -> _Found:
    if facts.whole.purpose == "filler":
        return _Found(
            TxCause.ALLOCATED,
            "It keeps its lane without a gap and is not signed yet: a reconciler of the pool does so.",
            "nothing; if it stays, look whether any process of the role runs and what the market asks",
            facts.whole.check_at,
        )
    return _Found(
        TxCause.ALLOCATED,
        f"Nonce {facts.whole.nonce} is reserved and nothing is signed: it waits for an attempt of its job.",
        f"`tayho jobs explain {facts.whole.job_id}` says when that comes",
    )


def _behind(facts: LineageFacts) -> Iterator[_Found]:
    lane, nonce = facts.lane, facts.whole.nonce
    if lane.lowest_open_nonce is not None and lane.lowest_open_nonce < nonce:
        yield _Found(
            TxCause.BEHIND_LOWER_NONCE,
            f"Nonce {lane.lowest_open_nonce} of its lane comes first and is in no block yet.",
            f"`tayho tx explain {lane.lowest_open_lineage_id}`: only the lowest nonce is ever replaced",
        )


def _signed(facts: LineageFacts, active: MemberRecord) -> _Found:
    """Of a lineage with signed bytes that no block shows: whether it is out, and whether it pays enough."""
    latest = majority([node.latest_nonce for node in facts.nodes])
    if latest is not None and latest > facts.whole.nonce and not any_receipt(facts):
        return _Found(
            TxCause.NONCE_USED,
            f"The account's nonce is {latest} and no node asked has a receipt of any of its transactions.",
            "nothing yet: a node may lag; the reconciler decides by a quorum, and only on what is final",
            facts.whole.check_at,
        )
    seen = [one for node in facts.nodes for one in node.members if one.tx_hash == active.tx_hash and not one.problem]
    if any(one.is_known for one in seen) or (not facts.nodes and active.state == "broadcast"):
        return _priced(facts, active, seen)
    if active.state == "ambiguous":
        return _Found(
            TxCause.AMBIGUOUS,
            f"It was sent, and nobody said yes or no to it: {last_word(facts, active)}.",
            "nothing: the same bytes are sent again, less often while the answer stays the same",
            resent_at(facts, active),
        )
    if active.state == "signed":
        words = last_word(facts, active)
        return _Found(
            TxCause.UNSENT,
            f"It is signed and no node has taken it yet{f': {words}' if words else ''}.",
            "nothing: the reconciler sends it; if it stays, look whether any process of the role runs",
            resent_at(facts, active),
        )
    if seen:
        return _Found(
            TxCause.DROPPED,
            f"A node took it, and none of {len(seen)} asked shows it now.",
            "nothing: the reconciler sends the same bytes again",
            facts.whole.check_at,
        )
    return _Found(
        TxCause.UNSEEN,
        f"A node took it; no endpoint of RPC_READ_URLS could say where it is: {problems(facts)}.",
        "bring an endpoint back, and ask again",
    )


def _priced(facts: LineageFacts, active: MemberRecord, seen: list[MemberSeen]) -> _Found:
    base_fee = majority([node.base_fee_per_gas_wei for node in facts.nodes])
    known = sum(one.is_known for one in seen)
    where = f"{known} of {len(seen)} nodes have it pending" if seen else "a node has taken it, and none was asked now"
    bump_at = active.signed_at + timedelta(seconds=facts.rules.stuck_seconds)
    is_below = base_fee is not None and active.max_fee_per_gas_wei < base_fee
    if not is_below and bump_at > facts.now and facts.whole.bump_requested_at is None:
        market = "" if base_fee is None else f" (at most {active.max_fee_per_gas_wei} wei, base fee {base_fee})"
        return _Found(
            TxCause.IN_MEMPOOL,
            f"It waits for a block: {where}, at the market's fee{market}.",
            f"nothing; it may be replaced from {clock(bump_at)} on",
            bump_at,
        )
    why = (
        f"it pays at most {active.max_fee_per_gas_wei} wei and the base fee is {base_fee}"
        if is_below
        else "an operator asked for higher fees"
        if facts.whole.bump_requested_at is not None
        else f"it waits for longer than TX_STUCK_SECONDS ({facts.rules.stuck_seconds})"
    )
    spent = len(facts.whole.members) - 1
    left = max(facts.rules.replacements_max - spent, 0)
    return _Found(
        TxCause.UNDERPRICED,
        f"It is to be replaced at higher fees from {clock(bump_at)} on: {why}; {where}.",
        f"nothing while {left} of {facts.rules.replacements_max} replacements are left; the lowest nonce goes first",
        max(bump_at, facts.now),
    )
