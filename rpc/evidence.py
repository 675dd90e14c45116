"""What is kept of a contested decision: who said what, when, about which question (RPC-5)."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, Literal, TypeAlias

from attrs import frozen

from rpc.ballots import Agreed, AgreedRevert, Verdict, Vote
from rpc.errors import RpcError
from rpc.foreign_text import printable
from rpc.reads import Call
from rpc.rendering import rendered

ANSWER_CHARACTERS_MAX = 4_000
"""Longest answer kept whole: a receipt with ten events. Of a longer one the beginning is kept, and its length."""

SUBJECT_CHARACTERS_MAX = 1_000

Outcome: TypeAlias = Literal["agreed", "no quorum", "refuted"]


@frozen
class Testimony:
    """One voter's answer as canonical JSON of our own, or its error in words; None where none came."""

    voter: str
    answer: str | None
    error: str | None
    seconds: float
    dissents: bool


@frozen
class Evidence:
    """One decision and everything it rested on, bounded in size. `subject` is the question's parameters."""

    method: str
    subject: str
    outcome: Outcome
    decided_at: datetime
    testimonies: tuple[Testimony, ...]


Keep: TypeAlias = Callable[[Evidence], None]
"""Where evidence goes. It must be quick, and must not raise: what it raises ends the decision it is about."""


def evidence_of(call: Call[Any], verdict: Verdict[Any], at: datetime) -> Evidence:
    """The evidence of one verdict."""
    is_agreed = isinstance(verdict, Agreed | AgreedRevert)
    dissenters: Sequence[str] = verdict.dissenters if is_agreed else ()
    return Evidence(
        method=call.method,
        subject=cut(_subject(call), SUBJECT_CHARACTERS_MAX),
        outcome="agreed" if is_agreed else "no quorum",
        decided_at=at,
        testimonies=tuple(_testimony(vote, vote.voter in dissenters) for vote in verdict.votes),
    )


def _testimony(vote: Vote, dissents: bool) -> Testimony:
    if isinstance(vote.outcome, RpcError):
        error = printable(str(vote.outcome), ANSWER_CHARACTERS_MAX)
        return Testimony(vote.voter, None, error, vote.seconds, dissents)
    return Testimony(vote.voter, cut(_text_of(vote.outcome), ANSWER_CHARACTERS_MAX), None, vote.seconds, dissents)


def _text_of(outcome: object) -> str:
    try:
        return rendered(outcome)
    except TypeError:
        return printable(repr(outcome), ANSWER_CHARACTERS_MAX)


def _subject(call: Call[Any]) -> str:
    """The parameters, which are public: a write is never voted on."""
    return json.dumps(call.params, sort_keys=True, separators=(",", ":"), default=str)


def cut(text: str, characters_max: int) -> str:
    """The text, or its beginning and its length."""
    return text if len(text) <= characters_max else f"{text[:characters_max]}… ({len(text)} characters)"
