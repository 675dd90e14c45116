"""Many questions over several endpoints: the best is asked for all, the next for what it could not tell."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, TypeVar

import trio
from attrs import define, field

from rpc.errors import RpcError
from rpc.member import GuardedEndpoint
from rpc.reads import Call
from rpc.refusals import is_answer, most_telling

T = TypeVar("T")

_TRIES_IN_DEADLINE = 2


@define(eq=False)
class BatchOverMembers(Generic[T]):
    """Questions asked together. `run` once.

    Invariant: a question is in `_settled` once it has a value or a refusal that is an answer; only others are asked of
    the next endpoint.
    """

    calls: Sequence[Call[T]]
    members: Sequence[GuardedEndpoint]
    deadline: float
    _settled: dict[int, T | RpcError] = field(factory=dict[int, "T | RpcError"], init=False)
    _errors: dict[int, list[RpcError]] = field(factory=dict[int, list[RpcError]], init=False)

    async def run(self) -> list[T | RpcError]:
        """The outcomes in the order asked."""
        for tried, member in enumerate(self.members):
            open_places = [place for place in range(len(self.calls)) if place not in self._settled]
            seconds = self.deadline - trio.current_time()
            if not open_places or (tried > 0 and seconds <= 0):
                break
            tries = min(len(self.members) - tried, _TRIES_IN_DEADLINE)
            answers = await member.ask_many([self.calls[place] for place in open_places], seconds / tries)
            for place, answer in zip(open_places, answers, strict=True):
                self._settle(place, answer)
        return [self._outcome(place) for place in range(len(self.calls))]

    def _settle(self, place: int, answer: T | RpcError) -> None:
        if isinstance(answer, RpcError) and not is_answer(answer):
            self._errors.setdefault(place, []).append(answer)
        else:
            self._settled[place] = answer

    def _outcome(self, place: int) -> T | RpcError:
        if place in self._settled:
            return self._settled[place]
        return most_telling(self._errors[place])
