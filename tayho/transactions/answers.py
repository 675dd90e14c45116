"""Writing down what nodes said, and moving lineages by it: the one place for attempts and reconciler (TX-4)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TypeAlias, get_args
from uuid import UUID

import structlog
from attrs import frozen

from storage.database import Connection
from tayho.kernel.address import Address
from tayho.transactions import store
from tayho.transactions.answer_rules import ANSWER_HOLDS, Consequence, consequence
from tayho.transactions.types import Answered, Happening, Hold, Observe, ObserveSeconds, Stage

log = structlog.get_logger("tayho.transactions")

_Happened: TypeAlias = tuple[Happening, str]


@frozen
class Applied:
    """What came of answers, to be told once it is committed."""

    # For each lineage that is out for the first time: how long after its nonce was taken, in seconds.
    out_after: tuple[float, ...] = ()
    happened: tuple[_Happened, ...] = ()


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


async def apply_answers(tx: Connection, answered: Sequence[Answered], sent_by: str) -> Applied:
    """Move lanes, lineages and members by what was said. Locks lanes, then lineages, then members.

    Whatever was said, the bytes stay: a yes marks them out, a no may hold the lineage, and neither leaves a doubt.
    """
    if not answered:
        return Applied()
    meant = [(one, _meaning(one)) for one in answered]
    closed = await _close_lanes(tx, [one for one, means in meant if means.closes_lane], sent_by)
    rows = await store.LOCK_LINEAGES_OF(tx, [one.tx_hash for one in answered])
    lineages: dict[bytes, UUID] = {row["tx_hash"]: row["lineage_id"] for row in rows}
    marked = await store.MARK_BROADCAST(tx, [one.tx_hash for one in answered if one.answer.is_out])
    await store.DOUBT(tx, [one.tx_hash for one, means in meant if means.is_doubt])
    taken = {lineages[one.tx_hash] for one in answered if one.answer.is_out}
    # Of several members the newest speaks, and against a yes to any of them nobody does.
    holds: dict[UUID, tuple[Hold, str]] = {
        lineages[one.tx_hash]: (means.hold, one.answer.detail or means.meaning)
        for one, means in meant
        if means.hold is not None and lineages[one.tx_hash] not in taken
    }
    held = await _hold(tx, holds) if holds else []
    released = await _release(tx, list(taken), ANSWER_HOLDS, "a node took the transaction") if taken else []
    return Applied(
        out_after=tuple(row["seconds"] for row in marked if row["member_number"] == 1),
        happened=(*closed, *held, *released),
    )


async def release_included(tx: Connection, lineage_ids: Sequence[UUID]) -> Applied:
    """A block that shows the transaction ends every kind of hold: whatever it waited for has come."""
    if not lineage_ids:
        return Applied()
    return Applied(happened=tuple(await _release(tx, lineage_ids, get_args(Hold), "it was seen in a block")))


def tell(applied: Applied, answered: Sequence[Answered], observe: Observe, observe_seconds: ObserveSeconds) -> None:
    """Tell whoever counts, after the commit: what was rolled back never was."""
    said = [(Happening.ANSWERED, one.answer.reason or one.answer.kind) for one in answered]
    for (what, label), count in Counter([*said, *applied.happened]).items():
        observe(what, label, count)
    for seconds in applied.out_after:
        observe_seconds(Stage.BROADCAST, seconds)


async def _close_lanes(tx: Connection, answered: Sequence[Answered], sent_by: str) -> list[_Happened]:
    if not answered:
        return []
    rows = await store.CLOSE_UNDERFUNDED(
        tx,
        [one.tx_hash for one in answered],
        [one.endpoint for one in answered],
        [one.answer.detail or "" for one in answered],
        sent_by,
    )
    for row in rows:
        log.warning("lane_underfunded", signer=str(Address(row["signer"])))
    return [(Happening.LANE_CLOSED, "underfunded") for _ in rows]


async def _hold(tx: Connection, holds: Mapping[UUID, tuple[Hold, str]]) -> list[_Happened]:
    kinds, reasons = [kind for kind, _ in holds.values()], [reason for _, reason in holds.values()]
    rows = await store.HOLD(tx, list(holds), kinds, reasons, list(ANSWER_HOLDS))
    return [(Happening.HELD, row["hold"]) for row in rows]


async def _release(tx: Connection, lineage_ids: Sequence[UUID], kinds: Sequence[Hold], why: str) -> list[_Happened]:
    rows = await store.RELEASE(tx, lineage_ids, list(kinds), why)
    return [(Happening.RELEASED, row["was_held_by"]) for row in rows]


def _meaning(one: Answered) -> Consequence:
    return consequence(one.answer.reason or ("already_known" if one.answer.is_out else "ambiguous"))
