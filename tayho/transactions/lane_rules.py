"""What becomes of a lane, from what PostgreSQL knows of it and what a majority shows of its account: pure (TX-9)."""

from __future__ import annotations

from attrs import evolve, frozen

from tayho.kernel.json_document import Json
from tayho.transactions.fees import INTRINSIC_GAS, buffered_gas, cost_wei, reserve_wei
from tayho.transactions.types import Finding, FindingKind, LaneFacts, LaneNeeds

# What one more call is taken to need where nothing in flight says more.
ROOM_GAS = 100_000
ROOM_DATA_BYTES = 1_000
# Until a majority has told more: what a plain transfer takes where no other chain's data is in its gas.
FILLER_GAS = buffered_gas(INTRINSIC_GAS, 2 * INTRINSIC_GAS)
LEAST_NEEDS = LaneNeeds(FILLER_GAS)
# So many calls before the lane would close, its balance is called low.
LOW_CALLS = 10
# EIP-7702: the code of an account that delegates is this and an address.
DELEGATION_PREFIX = b"\xef\x01\x00"


@frozen
class AccountView:
    """What a majority shows of an account; None is not agreed, and concludes nothing."""

    latest_nonce: int | None = None
    final_nonce: int | None = None
    pending_nonce: int | None = None
    balance_wei: int | None = None
    code: bytes | None = None


@frozen
class LaneStanding:
    """What the watch decides of a lane and writes on its row."""

    state: str
    state_reason: str | None
    is_low: bool
    is_pool_dropped: bool
    is_delegated: bool


def standing_of(facts: LaneFacts) -> LaneStanding:
    """The lane as it stands before the look."""
    status = facts.status
    return LaneStanding(status.state, status.state_reason, facts.is_low, facts.is_pool_dropped, status.is_delegated)


def needed_wei(facts: LaneFacts, fee_wei_max: int, needs: LaneNeeds = LEAST_NEEDS) -> int:
    """The least balance with which a lane may take one call more.

    Whatever is in flight can then be paid as it was signed, bumped up to the ceiling or filled, and so can the new
    call: the reserve is never spent on new work (TX-7).
    """
    reserve = reserve_wei(
        fee_wei_max=fee_wei_max,
        filler_gas=needs.filler_gas,
        in_flight=facts.status.in_flight,
        gas_in_flight=facts.gas_in_flight,
        data_fee_wei=needs.data_fee_wei,
    )
    return facts.value_in_flight_wei + reserve + room_wei(facts, fee_wei_max, needs)


def room_wei(facts: LaneFacts, fee_wei_max: int, needs: LaneNeeds = LEAST_NEEDS) -> int:
    """What one more call is taken to cost at the ceiling: the largest in flight, or a usual one."""
    return cost_wei(0, max(facts.gas_limit_max, ROOM_GAS, needs.filler_gas), fee_wei_max, needs.data_fee_wei)


def judge(
    facts: LaneFacts, view: AccountView, fee_wei_max: int, needs: LaneNeeds = LEAST_NEEDS
) -> tuple[LaneStanding, list[Finding]]:
    """How the lane stands after the look, and what began or ended with it. Neither blocked nor draining lanes open."""
    before = standing_of(facts)
    after, findings = _funded(facts, view, fee_wei_max, needs, before)
    is_delegated = before.is_delegated if view.code is None else view.code.startswith(DELEGATION_PREFIX)
    if is_delegated != before.is_delegated:
        kind: FindingKind = "delegated" if is_delegated else "undelegated"
        findings.append(Finding(kind, {"code": f"0x{(view.code or b'').hex()}"}))
    is_dropped = _is_pool_dropped(facts, view)
    if is_dropped and not before.is_pool_dropped:
        pending: dict[str, Json] = {"pending_nonce": view.pending_nonce, "fence": facts.status.next_nonce}
        findings.append(Finding("dropped_mempool", pending | {"broadcast_nonce": facts.broadcast_nonce_max}))
    return evolve(after, is_delegated=is_delegated, is_pool_dropped=is_dropped), findings


def _funded(
    facts: LaneFacts, view: AccountView, fee_wei_max: int, needs: LaneNeeds, before: LaneStanding
) -> tuple[LaneStanding, list[Finding]]:
    if view.balance_wei is None:
        return before, []
    balance, room = view.balance_wei, room_wei(facts, fee_wei_max, needs)
    needed = needed_wei(facts, fee_wei_max, needs)
    detail: dict[str, Json] = {"balance_wei": str(balance), "needed_wei": str(needed)}
    is_low = balance < needed + LOW_CALLS * room
    findings = [Finding("low_balance", detail)] if is_low and not before.is_low else []
    after = evolve(before, is_low=is_low)
    if before.state == "open" and balance < needed:
        # The row keeps the reason of the day it closed: amounts that move would write it at every look.
        reason = (
            f"balance {balance} wei, and {needed} wei are needed for what is in flight, the reserve and one call more"
        )
        return evolve(after, state="underfunded", state_reason=reason), [*findings, Finding("underfunded", detail)]
    # One call above the line, so that the lane does not close again with the next.
    if before.state == "underfunded" and balance >= needed + room:
        return evolve(after, state="open", state_reason=None), [*findings, Finding("funded", detail)]
    return after, findings


def _is_pool_dropped(facts: LaneFacts, view: AccountView) -> bool:
    """The pools show less than a node has taken. What is not agreed leaves it as it was."""
    if view.pending_nonce is None:
        return facts.is_pool_dropped
    return facts.broadcast_nonce_max is not None and view.pending_nonce <= facts.broadcast_nonce_max


def foreign_until(facts: LaneFacts, view: AccountView) -> int | None:
    """Where the fence belongs: the nonces from it on to here were used by somebody else, and that is final."""
    if view.final_nonce is None or view.final_nonce <= facts.status.next_nonce:
        return None
    return view.final_nonce


def taken_from_allocated(facts: LaneFacts, view: AccountView) -> bool:
    """Whether somebody else has used, for good, a nonce that is reserved here and not signed."""
    lowest = facts.allocated_nonce_min
    return view.final_nonce is not None and lowest is not None and lowest < view.final_nonce


def forgotten_by_database(facts: LaneFacts, view: AccountView, fence_seen: int) -> bool:
    """Whether the chain is ahead of a fence that this process has itself seen further on: PostgreSQL lost commits.

    Otherwise a chain that is ahead while we run was used by somebody else.
    """
    fence = facts.status.next_nonce
    return view.latest_nonce is not None and fence < view.latest_nonce <= fence_seen
