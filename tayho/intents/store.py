"""The statements of `sql/intents`, and their rows as values."""

from __future__ import annotations

from storage.connection import Row
from storage.queries import command, many, one, scalar
from storage.rows import value_from
from tayho.contracts.coordination import JobProgress
from tayho.intents.types import Child, Intent, IntentStatus, LinePlace, SignedIntent, Waiting
from tayho.kernel.address import Address

REGISTER_LINE = command("intents/intents.register_line")
RECORD = command("intents/intents.record")
WAITING = many("intents/intents.waiting")
LOCK_LINE = scalar("intents/intents.lock_line")
FRONT_OF_LINE = many("intents/intents.front_of_line")
LEAVE_LINE = command("intents/intents.leave_line")
REJOIN_LINE = command("intents/intents.rejoin_line")
WHICH_ARE_KNOWN = many("intents/intents.which_are_known")
FIND_BY_JOBS = many("intents/intents.find_by_jobs")
LOOK_AT_LINE = one("intents/intents.look_at_line")
PLACES = many("intents/intents.places")

CLAIM_CHILDREN = command("intents/batches.claim_children")
CHILDREN_OF_BATCH = many("intents/batches.children_of_batch")
SETTLE_CHILDREN = many("intents/batches.settle_children")
PERMIT_RESTORE = command("intents/batches.permit_restore")
RELEASE_CHILDREN = many("intents/batches.release_children")
RESTORE_CHILDREN = many("intents/batches.restore_children")


def waiting_of(row: Row) -> Waiting:
    intent = value_from(Intent, row, account=Address(row["account"]))
    return value_from(Waiting, row, signed=SignedIntent(intent, row["signature"]))


def child_of(row: Row) -> Child:
    return value_from(Child, row, waiting=waiting_of(row))


def status_of(row: Row, progress: JobProgress) -> IntentStatus:
    return value_from(
        IntentStatus,
        row,
        account=Address(row["account"]),
        state=progress.state,
        changed_at=progress.updated_at,
        result=progress.result,
        last_error=progress.last_error,
    )


def place_of(row: Row) -> LinePlace:
    return value_from(LinePlace, row, account=Address(row["account"]))
