"""Reads that a majority of the configured endpoints agrees on (RPC-5)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Generic, TypeVar

import trio

from nursery.groups import unwrapped
from rpc.ballots import Agreed, AgreedRevert, Poll, Verdict, majority_of
from rpc.errors import NoQuorum, Reverted, RpcError
from rpc.evidence import Keep, evidence_of
from rpc.member import Member
from rpc.projections import voted
from rpc.reads import Call
from rpc.urls import unnumbered

T = TypeVar("T")

_REVERT_CODE = 3


class Quorum:
    """The configured endpoints as voters: all are asked at once, and each has one vote on each question.

    `keep` is handed the evidence of every decision that was contested: a voter said otherwise, or there is none.
    `deadline_seconds` bounds a decision, whatever the voters do; after it, a missing answer is no vote.
    """

    def __init__(
        self,
        members: Sequence[Member],
        keep: Keep | None = None,
        *,
        deadline_seconds: float = 30,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """Raises ValueError without members, or where one endpoint stands twice: it would vote twice."""
        self.members = tuple(members)
        self.voters = tuple(member.shown for member in self.members)
        self.needed = majority_of(len(self.members))
        if len({unnumbered(voter) for voter in self.voters}) != len(self.voters):
            raise ValueError(f"an endpoint has one vote, and one stands twice among {', '.join(self.voters)}")
        self._keep = keep
        self._deadline_seconds = deadline_seconds
        self._now = now

    async def agreed(self, call: Call[T], *, project: Callable[[T], object] = voted) -> Agreed[T]:
        """What a majority answers, compared by `project`; fields that it leaves out are one voter's word.

        Raises:
            NoQuorum: no majority agrees; every voter's answer is in it.
            Reverted: a majority says that the EVM reverts, with the same data.
        """
        (verdict,) = await self._decide([call], project)
        if isinstance(verdict, RpcError):
            raise verdict
        return verdict

    async def agreed_many(
        self, calls: Sequence[Call[T]], *, project: Callable[[T], object] = voted
    ) -> list[Agreed[T] | NoQuorum | Reverted]:
        """As `agreed` for many questions, in one batch a voter; each is decided by itself, its error in its place."""
        return await self._decide(calls, project) if calls else []

    async def _decide(
        self, calls: Sequence[Call[T]], project: Callable[[T], object]
    ) -> list[Agreed[T] | NoQuorum | Reverted]:
        if any(call.is_write for call in calls):
            raise ValueError("a write is not voted on: it goes through the one write endpoint")
        round_ = _Round(calls, self.voters, project)
        await round_.ask(self.members, self._deadline_seconds)
        return [self._concluded(call, poll.verdict()) for call, poll in zip(calls, round_.polls, strict=True)]

    def _concluded(self, call: Call[T], verdict: Verdict[T]) -> Agreed[T] | NoQuorum | Reverted:
        if self._keep is not None and (isinstance(verdict, NoQuorum) or verdict.dissenters):
            self._keep(evidence_of(call, verdict, self._now()))
        if isinstance(verdict, AgreedRevert):
            return Reverted(
                _REVERT_CODE, "execution reverted", endpoint="a majority", method=call.method, data=verdict.data
            )
        return verdict


class _Round(Generic[T]):
    """The same questions to every voter, until no further answer can change a verdict."""

    def __init__(self, calls: Sequence[Call[T]], voters: Sequence[str], project: Callable[[T], object]) -> None:
        self._calls = calls
        self.polls = [Poll(call, voters, project) for call in calls]

    async def ask(self, members: Sequence[Member], deadline_seconds: float) -> None:
        """Ask all at once. The slower ones are cancelled when all is decided; what came before is counted."""
        with unwrapped(), trio.move_on_after(deadline_seconds):
            async with trio.open_nursery() as asked:
                for member in members:
                    asked.start_soon(self._ask_one, member, asked.cancel_scope)

    async def _ask_one(self, member: Member, undecided: trio.CancelScope) -> None:
        started = trio.current_time()
        answers = await self._answers(member)
        # No checkpoint from here on: an answer that has come is counted, whoever cancels whom.
        seconds = trio.current_time() - started
        for poll, answer in zip(self.polls, answers, strict=True):
            poll.cast(member.shown, answer, seconds)
        if all(poll.is_decided for poll in self.polls):
            undecided.cancel()

    async def _answers(self, member: Member) -> list[T | RpcError]:
        if len(self._calls) > 1:
            return await member.ask_many(self._calls)
        try:
            return [await member.ask(self._calls[0])]
        except RpcError as error:
            return [error]
