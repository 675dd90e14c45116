"""Writing down what nodes said, and moving lineages by it: the one place for attempts and reconciler (TX-4)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import get_args
from uuid import UUID

import structlog

from storage.database import Connection
from tayho.kernel.address import Address
from tayho.transactions import store
from tayho.transactions.answer_rules import ANSWER_HOLDS, Consequence, consequence
from tayho.transactions.types import Answered, Happening, Hold, Observe

log = structlog.get_logger("tayho.transactions")


async def note_answers(tx: Connection, answered: Sequence[Answered], sent_by: str) -> None:
    """A row for each answer, whoever asked: nothing that a node ever said is lost."""
    await store.RECORD_BROADCASTS(
        tx,
        [one.tx_hash for one in answered],
        [one.endpoint for one in answered],
        [one.answer.kind for one in answered],
        [one.answer.reason for one in answered],
        [one.answer.detail for one in answered],
        sent_by,
    )


async def apply_answers(tx: Connection, answered: Sequence[Answered], sent_by: str, observe: Observe) -> None:
    """Move lanes, lineages and members by what was said. Locks lanes, then lineages, then members.

    Whatever was said, the bytes stay: a yes marks them out, a no may hold the lineage, and neither leaves a doubt.
    """
    if not answered:
        return
    meant = [(one, _meaning(one)) for one in answered]
    await _close_lanes(tx, [one for one, means in meant if means.closes_lane], sent_by, observe)
    rows = await store.LOCK_LINEAGES_OF(tx, [one.tx_hash for one in answered])
    lineages: dict[bytes, UUID] = {row["tx_hash"]: row["lineage_id"] for row in rows}
    await store.MARK_BROADCAST(tx, [one.tx_hash for one in answered if one.answer.is_out])
    await store.DOUBT(tx, [one.tx_hash for one, means in meant if means.is_doubt])
    taken = {lineages[one.tx_hash] for one in answered if one.answer.is_out}
    # Of several members the newest speaks, and against a yes to any of them nobody does.
    holds = {
        lineages[one.tx_hash]: (means.hold, one.answer.detail or means.meaning)
        for one, means in meant
        if means.hold is not None and lineages[one.tx_hash] not in taken
    }
    if holds:
        held = await store.HOLD(
            tx,
            list(holds),
            [kind for kind, _ in holds.values()],
            [reason for _, reason in holds.values()],
            list(ANSWER_HOLDS),
        )
        _count(observe, Happening.HELD, [row["hold"] for row in held])
    if taken:
        released = await store.RELEASE(tx, list(taken), list(ANSWER_HOLDS), "a node took the transaction")
        _count(observe, Happening.RELEASED, [row["was_held_by"] for row in released])


async def release_included(tx: Connection, lineage_ids: Sequence[UUID], observe: Observe) -> None:
    """A block that shows the transaction ends every kind of hold: whatever it waited for has come."""
    if lineage_ids:
        released = await store.RELEASE(tx, lineage_ids, list(get_args(Hold)), "it was seen in a block")
        _count(observe, Happening.RELEASED, [row["was_held_by"] for row in released])


def count_answers(answered: Sequence[Answered], observe: Observe) -> None:
    """Tell what was said, by class."""
    _count(observe, Happening.ANSWERED, [one.answer.reason or one.answer.kind for one in answered])


async def _close_lanes(tx: Connection, answered: Sequence[Answered], sent_by: str, observe: Observe) -> None:
    if not answered:
        return
    rows = await store.CLOSE_UNDERFUNDED(
        tx,
        [one.tx_hash for one in answered],
        [one.endpoint for one in answered],
        [one.answer.detail or "" for one in answered],
        sent_by,
    )
    for row in rows:
        log.warning("lane_underfunded", signer=str(Address(row["signer"])), detail=answered[0].answer.detail)
    _count(observe, Happening.LANE_CLOSED, ["underfunded" for _ in rows])


def _meaning(one: Answered) -> Consequence:
    return consequence(one.answer.reason or ("already_known" if one.answer.is_out else "ambiguous"))


def _count(observe: Observe, what: Happening, labels: Sequence[str]) -> None:
    for label, count in Counter(labels).items():
        observe(what, label, count)
