"""What is kept of a finality decision and of a contest, bounded in size: pure (RPC-12)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from rpc.ballots import Agreed, Vote
from rpc.errors import RpcError
from rpc.evidence import ANSWER_CHARACTERS_MAX, Evidence, cut
from rpc.foreign_text import printable
from rpc.rendering import rendered
from rpc.truth import Sight
from rpc.values import Receipt

DETAIL_CHARACTERS_MAX = 1_000_000
"""Aimed at for one row: where a look ended so much that it would be more, every answer is cut shorter."""

_CUTS = (ANSWER_CHARACTERS_MAX, 400, 80)
_REASONS_MAX = 10
_REASON_CHARACTERS_MAX = 300


def final_detail(sight: Sight, voters: Sequence[str], needed: int, ended: Mapping[UUID, Receipt]) -> dict[str, Any]:
    """One decision: who may vote, who said what after how long, and who proved it."""
    for characters_max in _CUTS:
        detail = _final_detail(sight, voters, needed, ended, characters_max)
        if len(json.dumps(detail)) <= DETAIL_CHARACTERS_MAX:
            return detail
    return _final_detail(sight, voters, needed, ended, 0)


def _final_detail(
    sight: Sight, voters: Sequence[str], needed: int, ended: Mapping[UUID, Receipt], characters_max: int
) -> dict[str, Any]:
    return {
        "voters": list(voters),
        "needed": needed,
        "decisions": [_decision(sight, lineage_id, receipt, characters_max) for lineage_id, receipt in ended.items()],
        "unproven_because": [printable(one, _REASON_CHARACTERS_MAX) for one in sight.checked.reasons[:_REASONS_MAX]],
    }


def _decision(sight: Sight, lineage_id: UUID, receipt: Receipt, characters_max: int) -> dict[str, Any]:
    agreed = sight.verdicts.get(receipt.transaction_hash)
    return {
        "lineage_id": str(lineage_id),
        "tx_hash": f"0x{receipt.transaction_hash.hex()}",
        "block_number": receipt.block_number,
        "block_hash": f"0x{receipt.block_hash.hex()}",
        "answer": cut(rendered(receipt), characters_max),
        "told": {} if agreed is None else _told(agreed, characters_max),
        "proven_by": sight.checked.proven_by.get(receipt.transaction_hash),
    }


def _told(agreed: Agreed[Receipt | None], characters_max: int) -> dict[str, Any]:
    """Who gave the answer, who another, and who none; each with its time."""
    return {vote.voter: _testimony(vote, agreed, characters_max) for vote in agreed.votes}


def _testimony(vote: Vote, agreed: Agreed[Receipt | None], characters_max: int) -> dict[str, Any]:
    seconds = round(vote.seconds, 6)
    if isinstance(vote.outcome, RpcError):
        return {"seconds": seconds, "error": printable(str(vote.outcome), max(characters_max, 1))}
    if vote.voter not in agreed.dissenters:
        return {"seconds": seconds, "agrees": True}
    return {"seconds": seconds, "agrees": False, "answer": cut(rendered(vote.outcome), characters_max)}


def contest_kind(evidence: Evidence) -> str:
    """The kind of its row."""
    return "refuted" if evidence.outcome == "refuted" else "contested"


def contest_detail(evidence: Evidence, dropped: int) -> dict[str, Any]:
    """One contest. `dropped` is how many more there were that nobody wrote down."""
    return {
        "method": evidence.method,
        "subject": evidence.subject,
        "outcome": evidence.outcome,
        "told_at": evidence.decided_at.isoformat(),
        "dropped": dropped,
        "told": {
            one.voter: {
                "seconds": round(one.seconds, 6),
                "dissents": one.dissents,
                **({"error": one.error} if one.error is not None else {"answer": one.answer}),
            }
            for one in evidence.testimonies
        },
    }
