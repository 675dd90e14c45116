"""May this signer leave its pool, and may that one take its place: pure (OPS-7)."""

from __future__ import annotations

from collections.abc import Iterator

from tayho.kernel.address import Address
from tayho.transactions.errors import (
    CheckMissing,
    LaneNotDraining,
    RotationRefused,
    SignerRetired,
    SignerTaken,
    StillOpen,
)
from tayho.transactions.rotating.types import (
    CHECK_HOLDS_SECONDS,
    CheckSeen,
    LaneNow,
    Missing,
    RotationFacts,
    SignerFacts,
)


def missing_of_signer(facts: SignerFacts) -> tuple[Missing, ...]:
    """Every condition of a retirement that does not hold; none where the signer may go."""
    return tuple(_missing_of_signer(facts))


def _missing_of_signer(facts: SignerFacts) -> Iterator[Missing]:
    lane = facts.lane
    if lane.state != "draining":
        yield Missing(
            "not_draining", f"the lane is {lane.state}: `tayho jobs signer-drain {lane.signer} SECONDS` first"
        )
    if facts.is_halted:
        yield Missing("halted", "the pool is halted: which chain is right is not decided")
    if facts.open_lineages:
        yield Missing("open", f"{facts.open_lineages} of its transactions are not final")
    if facts.head_block_number is None:
        yield Missing("head", "no head is agreed by a majority of RPC_READ_URLS")
        return
    if facts.revivable_lineages:
        final_at = (facts.revivable_block_number_max or 0) + facts.lookback_blocks
        yield Missing(
            "revivable",
            f"{facts.revivable_lineages} of its transactions ended less than {facts.lookback_blocks} blocks below the "
            f"head, block {facts.head_block_number}, and a reorganisation could bring them back: wait for block "
            f"{final_at}",
        )
    told = {"head": facts.latest_nonce, "final": facts.final_nonce, "pools": facts.pending_nonce}
    where = {"head": "at the head", "final": f"{facts.lookback_blocks} blocks below it", "pools": "in the nodes' pools"}
    for place, nonce in told.items():
        if nonce is None:
            yield Missing(f"nonce_{place}", f"its nonce {where[place]} is not agreed by a majority")
        elif nonce != lane.next_nonce:
            yield Missing(
                f"nonce_{place}", f"its nonce {where[place]} is {nonce}, and the lane's fence {lane.next_nonce}"
            )


def refusal_of_rotation(new: Address, facts: RotationFacts, environment: str, role: str) -> RotationRefused | None:
    """Why `new` may not take the place, or None. Of a place that it has taken already, None too: see `is_done`."""
    if is_done(facts):
        return None
    entrant, old = facts.new, facts.old
    if entrant is not None:
        is_gone = entrant.state == "retired"
        return SignerRetired(new) if is_gone else SignerTaken(new, entrant.environment, entrant.role)
    if old is None:
        return None
    if (old.environment, old.role) != (environment, role):
        return SignerTaken(old.signer, old.environment, old.role)
    return _refusal_of_leaver(old, facts)


def _refusal_of_leaver(old: LaneNow, facts: RotationFacts) -> RotationRefused | None:
    if old.state == "retired":
        return SignerRetired(old.signer)
    if old.state != "draining":
        return LaneNotDraining(old.signer, old.state)
    if facts.open_lineages:
        return StillOpen(old.signer, facts.open_lineages)
    why = _why_check_fails(old, facts.check)
    return None if why is None else CheckMissing(old.signer, why)


def _why_check_fails(old: LaneNow, check: CheckSeen | None) -> str | None:
    if check is None:
        return "it was never checked"
    if not check.has_passed:
        return "its newest check failed"
    if check.age_seconds > CHECK_HOLDS_SECONDS:
        return f"its newest check passed {check.age_seconds / 60:.0f} minutes ago"
    if check.nonce_fence != old.next_nonce:
        return f"it has taken nonces since its check, when its fence was {check.nonce_fence}"
    return None


def is_done(facts: RotationFacts) -> bool:
    """Whether the place was handed over already, from this very signer to that one."""
    old, new = facts.old, facts.new
    return old is not None and new is not None and old.state == "retired" and new.predecessor == old.signer
