"""Whether a lineage is signed anew at its nonce, held, or let alone: pure (TX-7, TX-10)."""

from __future__ import annotations

from collections.abc import Collection

from attrs import evolve

from tayho.transactions.fees import bump
from tayho.transactions.replacing.types import (
    Candidate,
    Cause,
    Decision,
    Hold,
    Keep,
    LetBe,
    Limits,
    Release,
    Replace,
    Sight,
)
from tayho.transactions.types import Fee, FeeCapped, Market

FEE_CAPPED, SPENT, REFUSED = "fee_capped", "replacements_spent", "refused"
# The holds that come of these rules; the others come of what nodes answered, and are not changed here.
OURS = (FEE_CAPPED, SPENT, REFUSED)
# The class of a node's answer that names another transaction at the nonce, with a fee that is not outbid (TX-4).
UNDERPRICED = "replacement_underpriced"


def decide(candidate: Candidate, sight: Sight, limits: Limits) -> Decision:
    """What comes of it now.

    Never another transaction where a member may have been mined, where the chain waits for another nonce first (but
    for a cancellation), above the ceiling, or more often than allowed.
    """
    if not _is_unmined(candidate, sight):
        return LetBe()
    cause = candidate.cause
    if cause is None or not _may_act(candidate, sight, cause):
        return _released(candidate, sight)
    old = _highest(candidate, sight)
    if old is None:
        if cause == "stuck":
            return _held(candidate, sight, REFUSED, "another transaction sits at this nonce and no node shows its fee")
        old = candidate.active.fee
    if cause != "cancel_requested" and _is_spent(candidate, limits):
        return _held(
            candidate, sight, SPENT, f"TX_MAX_REPLACEMENTS is {limits.replacements_max}, and it was replaced as often"
        )
    fee = bump(
        old,
        sight.market,
        bump_basis_points=limits.bump_basis_points,
        fee_wei_max=limits.fee_wei_max,
        transaction_type=candidate.active.transaction_type,
    )
    if isinstance(fee, FeeCapped):
        return _capped(candidate, sight, fee)
    return Replace(fee, cause, is_cancellation=candidate.active.is_cancellation or cause == "cancel_requested")


def pays(fee: Fee, market: Market) -> bool:
    """Whether a block could take it now: its whole tip, or the market's, fits above the base fee."""
    tip_wei = min(fee.max_priority_fee_per_gas_wei, market.tip_wei)
    return fee.max_fee_per_gas_wei >= (market.base_fee_wei or 0) + tip_wei


def _is_unmined(candidate: Candidate, sight: Sight) -> bool:
    """No member has a receipt and the nonce is not used: both surely so."""
    nonce = sight.nonces.get(candidate.lineage.signer)
    return (
        nonce is not None
        and nonce <= candidate.lineage.nonce
        and all(tx_hash in sight.receipts for tx_hash in candidate.tx_hashes)
        and all(sight.receipts[tx_hash] is None for tx_hash in candidate.tx_hashes)
    )


def _may_act(candidate: Candidate, sight: Sight, cause: Cause) -> bool:
    if cause == "cancel_requested":
        return True
    # The chain must wait for this very nonce.
    if sight.nonces.get(candidate.lineage.signer) != candidate.lineage.nonce:
        return False
    if cause == "bump_requested":
        return True
    if candidate.was_behind and pays(candidate.active.fee, sight.market):
        # It could not be mined while others were before it, and now it can: it has not been stuck yet.
        return False
    # A higher fee heals none of the other holds: it asks for more funds, or for more than a node's own limit.
    return candidate.hold in (None, FEE_CAPPED, SPENT) or (
        candidate.hold == REFUSED and candidate.answer_reason == UNDERPRICED
    )


def _highest(candidate: Candidate, sight: Sight) -> Fee | None:
    """What must be outbid; None where a node knows more than it shows."""
    active = candidate.active
    if candidate.answer_reason != UNDERPRICED:
        return active.fee
    incumbent = sight.incumbents.get(active.tx_hash)
    if incumbent is None:
        return None
    return evolve(
        active.fee,
        max_fee_per_gas_wei=max(active.fee.max_fee_per_gas_wei, incumbent.max_fee_per_gas_wei),
        max_priority_fee_per_gas_wei=max(
            active.fee.max_priority_fee_per_gas_wei, incumbent.max_priority_fee_per_gas_wei
        ),
    )


def _is_spent(candidate: Candidate, limits: Limits) -> bool:
    """Cancellations are counted by themselves: the calls before one leave it its own chances."""
    spent = candidate.cancellations - 1 if candidate.active.is_cancellation else candidate.replacements
    return spent >= limits.replacements_max


def _capped(candidate: Candidate, sight: Sight, capped: FeeCapped) -> Decision:
    released = _released(candidate, sight) if candidate.cause == "stuck" else LetBe()
    return released if isinstance(released, Release) else _held(candidate, sight, FEE_CAPPED, capped.reason)


def _held(candidate: Candidate, sight: Sight, hold: Hold, reason: str) -> Decision:
    """The hold, unless it is there already or another one says why."""
    if candidate.hold == hold or candidate.hold not in (None, *OURS):
        return LetBe()
    return Keep(hold, reason, pays(candidate.active.fee, sight.market))


def _released(candidate: Candidate, sight: Sight) -> Decision:
    """Whether the market came down to what is offered. Where it had come down so far when the hold was set, it says
    nothing new."""
    is_lifted = (
        candidate.hold == FEE_CAPPED and not candidate.was_paying_when_held and pays(candidate.active.fee, sight.market)
    )
    return Release("the market asks no more than it offers") if is_lifted else LetBe()


def underpriced(candidates: Collection[Candidate]) -> list[Candidate]:
    """Those of which a node said that another transaction at the nonce is not outbid."""
    return [one for one in candidates if one.answer_reason == UNDERPRICED]
