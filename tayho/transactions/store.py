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
from tayho.transactions.reconcile_rules import OpenMember
from tayho.transactions.types import Fee, LaneStatus, Lineage, LineageRecord, MemberRecord

REGISTER_POOL = command("transactions/lanes.register_pool")
REGISTER_LANE = command("transactions/lanes.register_lane")
FIND_LANE = one("transactions/lanes.find_lane")
LOCK_POOL = scalar("transactions/lanes.lock_pool")
LOCK_LANES_OF_POOL = many("transactions/lanes.lock_lanes_of_pool")
LANES_OF_POOL = many("transactions/lanes.lanes_of_pool")
MOVE_CURSOR = command("transactions/lanes.move_cursor")

ALLOCATE = many("transactions/journal.allocate")
LIVE_OF_JOB = one("transactions/journal.live_of_job")
PERSIST = many("transactions/journal.persist")
SEALED_MEMBERS = many("transactions/journal.sealed_members")
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

CLOSE_UNDERFUNDED = many("transactions/holds.close_underfunded")
LOCK_LINEAGES_OF = many("transactions/holds.lock_lineages_of")
HOLD = many("transactions/holds.hold")
RELEASE = many("transactions/holds.release")

FIND_LINEAGES = many("transactions/explaining.find_lineages")
LINEAGE = one("transactions/explaining.lineage")
BROADCASTS_OF_LINEAGE = many("transactions/explaining.broadcasts_of_lineage")
RECEIPTS_OF_LINEAGE = many("transactions/explaining.receipts_of_lineage")
EVENTS_OF_LINEAGE = many("transactions/explaining.events_of_lineage")
FINDINGS_OF_LINEAGE = many("transactions/explaining.findings_of_lineage")
LANE_OF_LINEAGE = one("transactions/explaining.lane_of_lineage")
OPEN_HALTS = many("transactions/explaining.open_halts")
DOUBTFUL = many("transactions/explaining.doubtful")
LANES_OF_ENVIRONMENT = many("transactions/explaining.lanes_of_environment")
OPEN_BY_STATE_AND_HOLD = many("transactions/explaining.open_by_state_and_hold")


def lane_of(row: Row) -> LaneStatus:
    return value_from(LaneStatus, row, signer=Address(row["signer"]))


def lineage_of(row: Row) -> Lineage:
    call = Call(Address(row["to_address"]), row["call_data"], row["value_wei"])
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
