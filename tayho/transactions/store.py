"""The statements of `sql/transactions`, and their rows as values."""

from __future__ import annotations

from collections.abc import Iterable

from storage.connection import Row
from storage.queries import command, many, one, scalar
from storage.rows import value_from
from tayho.contracts.custody import SealBinding, SealedTransaction
from tayho.kernel.address import Address
from tayho.kinds import Call
from tayho.transactions.fillers import filler_call_hash
from tayho.transactions.replacing.types import Candidate
from tayho.transactions.rotating.types import LaneNow
from tayho.transactions.types import (
    Fee,
    Halt,
    LaneFacts,
    LaneStatus,
    Lineage,
    LineageRecord,
    MemberRecord,
    OpenMember,
)

REGISTER_POOL = command("transactions/lanes.register_pool")
REGISTER_LANE = command("transactions/lanes.register_lane")
FIND_LANE = one("transactions/lanes.find_lane")
LOCK_POOL = one("transactions/lanes.lock_pool")
LOCK_LANES_OF_POOL = many("transactions/lanes.lock_lanes_of_pool")
LANES_OF_POOL = many("transactions/lanes.lanes_of_pool")
HAS_LANES = scalar("transactions/lanes.has_lanes")
MOVE_CURSOR = command("transactions/lanes.move_cursor")

ALLOCATE = many("transactions/journal.allocate")
LIVE_OF_JOB = one("transactions/journal.live_of_job")
PERSIST = many("transactions/journal.persist")
SEALED_MEMBERS = many("transactions/journal.sealed_members")
LAST_SAID = many("transactions/journal.last_said")
RECORD_BROADCASTS = command("transactions/journal.record_broadcasts")
DOUBT = command("transactions/journal.doubt")
MARK_BROADCAST = many("transactions/journal.mark_broadcast")
ABANDON_UNSIGNED = one("transactions/journal.abandon_unsigned")

CLAIM_OPEN = many("transactions/reconcile.claim_open")
CLAIM_FILLERS = many("transactions/reconcile.claim_fillers")
NOTE_INCLUSION = command("transactions/reconcile.note_inclusion")
FINALISE = many("transactions/reconcile.finalise")
OPEN_COUNT = scalar("transactions/reconcile.open_count")

LINEAGES_OF_JOB = many("transactions/lineages.lineages_of_job")
MEMBERS_OF_LINEAGES = many("transactions/lineages.members_of_lineages")

BOUNDARY = one("transactions/reorganising.boundary")
MOVE_BOUNDARY = command("transactions/reorganising.move_boundary")
DECIDING_BLOCKS = many("transactions/reorganising.deciding_blocks")
RECORD_REORGANISATIONS = command("transactions/reorganising.record_reorganisations")
ENDED_IN = many("transactions/reorganising.ended_in")
LOCK_LINEAGES = many("transactions/reorganising.lock_lineages")
STILL_ENDED_IN = many("transactions/reorganising.still_ended_in")
PERMIT_REVIVAL = command("transactions/reorganising.permit_revival")
REVIVE = many("transactions/reorganising.revive")
RECORD_REVIVAL_CONFLICTS = command("transactions/reorganising.record_revival_conflicts")

SIGNERS_IN_FLIGHT = many("transactions/superseding.signers_in_flight")
WITH_USED_NONCES = many("transactions/superseding.with_used_nonces")
HOLD_FOR_USED_NONCE = many("transactions/superseding.hold_for_used_nonce")
RELEASE_USED_NONCES = many("transactions/superseding.release_used_nonces")
SUPERSEDE = many("transactions/superseding.supersede")

LOCK_POOL_FOR_HALT = scalar("transactions/halts.lock_pool_for_halt")
HOLD_POOL = scalar("transactions/halts.hold_pool")
RAISE_HALT = many("transactions/halts.raise_halt")
OPEN_HALTS = many("transactions/halts.open_halts")
RESOLVE_HALTS = many("transactions/halts.resolve_halts")
UNMARK_POOL = command("transactions/halts.unmark_pool")

LANE_FACTS = many("transactions/lane_watch.lane_facts")
OBSERVE_LANES = many("transactions/lane_watch.observe_lanes")
CHANGE_LANES_IF_UNCHANGED = many("transactions/lane_watch.change_lanes_if_unchanged")
RECORD_FINDINGS = command("transactions/lane_watch.record_findings")
ADVANCE_FENCES = many("transactions/lane_watch.advance_fences")
ALLOCATED_BELOW = many("transactions/lane_watch.allocated_below")
BLOCK_LANE = many("transactions/lane_watch.block_lane")
REOPEN_BLOCKED = many("transactions/lane_watch.reopen_blocked")
BLOCKED_LANES = many("transactions/lane_watch.blocked_lanes")
LATEST_OF_LANE = scalar("transactions/lane_watch.latest_of_lane")

ANCHOR = one("transactions/world.anchor")
RAISE_ANCHOR = command("transactions/world.raise_anchor")
SET_ANCHOR = command("transactions/world.set_anchor")
LOCK_LANES = many("transactions/world.lock_lanes")
OPEN_LINEAGES_OF_POOL = many("transactions/world.open_lineages_of_pool")
SUPERSEDE_OPEN = many("transactions/world.supersede_open")
BEGIN_WORLDS = command("transactions/world.begin_worlds")

WANTING_REPLACEMENT = many("transactions/replacing.wanting_replacement")
PERMIT_REPLACE = command("transactions/replacing.permit_replace")
LOCK_REPLACEABLE = many("transactions/replacing.lock_replaceable")
PERSIST_REPLACEMENTS = many("transactions/replacing.persist_replacements")
CHANGE_HOLDS = many("transactions/replacing.change_holds")
TELL_CANCELLED_UNSIGNED = command("transactions/replacing.tell_cancelled_unsigned")
LOCK_NAMED = one("transactions/replacing.lock_named")
WISH = many("transactions/replacing.wish")

CLOSE_UNDERFUNDED = many("transactions/holds.close_underfunded")
LOCK_LINEAGES_OF = many("transactions/holds.lock_lineages_of")
HOLD = many("transactions/holds.hold")
RELEASE = many("transactions/holds.release")
HOLD_FOR_MISSING_RESULT = many("transactions/holds.hold_for_missing_result")

LANE_NOW = one("transactions/rotation.lane_now")
DRAIN_LANE = many("transactions/rotation.drain_lane")
UNDRAIN_LANE = many("transactions/rotation.undrain_lane")
LEFT_OF_LANE = many("transactions/rotation.left_of_lane")
OPEN_OF_LANE = scalar("transactions/rotation.open_of_lane")
REVIVABLE_OF_LANE = one("transactions/rotation.revivable_of_lane")
RECORD_CHECK = one("transactions/rotation.record_check")
NEWEST_CHECK = one("transactions/rotation.newest_check")
RETIRE_LANE = many("transactions/rotation.retire_lane")
ADMIT_LANE = many("transactions/rotation.admit_lane")
HAND_OVER = command("transactions/rotation.hand_over")
KEY_FACTS = one("transactions/rotation.key_facts")
PAGE_OF_KEY = many("transactions/rotation.page_of_key")

FIND_LINEAGES = many("transactions/explaining.find_lineages")
LINEAGE = one("transactions/explaining.lineage")
BROADCASTS_OF_LINEAGE = many("transactions/explaining.broadcasts_of_lineage")
RECEIPTS_OF_LINEAGE = many("transactions/explaining.receipts_of_lineage")
EVENTS_OF_LINEAGE = many("transactions/explaining.events_of_lineage")
FINDINGS_OF_LINEAGE = many("transactions/explaining.findings_of_lineage")
LANE_OF_LINEAGE = one("transactions/explaining.lane_of_lineage")
HALTS_IN_FORCE = many("transactions/explaining.open_halts")
DOUBTFUL = many("transactions/explaining.doubtful")
LANES_OF_ENVIRONMENT = many("transactions/explaining.lanes_of_environment")
OPEN_BY_STATE_AND_HOLD = many("transactions/explaining.open_by_state_and_hold")

KEEP_FINAL = command("transactions/evidence.keep_final")
KEEP_CONTESTS = command("transactions/evidence.keep_contests")
AS_PRUNE_EVIDENCE = command("transactions/evidence.as_prune_evidence")
PRUNE_EVIDENCE = scalar("transactions/evidence.prune_evidence")
EVIDENCE_OF_JOB = many("transactions/evidence.evidence_of_job")


def lane_of(row: Row) -> LaneStatus:
    return value_from(LaneStatus, row, signer=Address(row["signer"]))


def lane_now_of(row: Row) -> LaneNow:
    predecessor = row["predecessor"]
    return value_from(
        LaneNow,
        row,
        signer=Address(row["signer"]),
        predecessor=None if predecessor is None else Address(predecessor),
    )


def lineage_of(row: Row) -> Lineage:
    call = Call(Address(row["to_address"]), row["call_data"], row["value_wei"], row["gas_limit_min"])
    return value_from(Lineage, row, signer=Address(row["signer"]), call=call)


def sealed_of(row: Row) -> tuple[SealedTransaction, SealBinding]:
    return (
        SealedTransaction(row["key_id"], row["cipher_nonce"], row["ciphertext"]),
        SealBinding(row["chain_id"], Address(row["signer"]), row["nonce"], _signed_call_hash(row), row["tx_hash"]),
    )


def _signed_call_hash(row: Row) -> bytes:
    """The hash of what the bytes call: a cancellation's is not its lineage's."""
    if row["is_cancellation"]:
        return filler_call_hash(row["chain_id"], Address(row["signer"]))
    return row["call_hash"]


def open_member_of(row: Row) -> OpenMember:
    fee = Fee(row["max_fee_per_gas_wei"], row["max_priority_fee_per_gas_wei"])
    return value_from(OpenMember, row, state=row["member_state"], fee=fee)


def candidate_of(row: Row) -> Candidate:
    return value_from(
        Candidate, row, lineage=lineage_of(row), active=open_member_of(row), tx_hashes=tuple(row["tx_hashes"])
    )


def lineage_record_of(row: Row, members: Iterable[Row]) -> LineageRecord:
    return value_from(
        LineageRecord,
        row,
        signer=Address(row["signer"]),
        to_address=Address(row["to_address"]),
        members=tuple(
            value_from(MemberRecord, member) for member in members if member["lineage_id"] == row["lineage_id"]
        ),
    )


def halt_of(row: Row) -> Halt:
    return value_from(Halt, row)


def lane_facts_of(row: Row) -> LaneFacts:
    return value_from(LaneFacts, row, status=lane_of(row))
