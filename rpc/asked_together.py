"""Questions of several kinds that voters are asked in one batch, and what a majority answered to each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Generic, TypeVar

from rpc.ballots import Agreed
from rpc.errors import RpcError
from rpc.quorum import Quorum
from rpc.reads import Call

T = TypeVar("T")


class Asked(Generic[T]):
    """Questions of one kind, each under its key. `answers` has them all once they were asked, refusals included."""

    def __init__(self, calls: Mapping[bytes, Call[T]]) -> None:
        self.calls = calls
        self.answers: dict[bytes, Agreed[T] | RpcError] = {}

    @property
    def agreed(self) -> dict[bytes, T]:
        """What was agreed. A key that is absent was not: nothing may be concluded about it."""
        return {key: answer.value for key, answer in self.verdicts.items()}

    @property
    def verdicts(self) -> dict[bytes, Agreed[T]]:
        """The same with the votes that it rests on."""
        return {key: answer for key, answer in self.answers.items() if not isinstance(answer, RpcError)}

    @property
    def refusals(self) -> tuple[RpcError, ...]:
        """Why the others were not agreed."""
        return tuple(answer for answer in self.answers.values() if isinstance(answer, RpcError))

    def require_any(self) -> None:
        """Raise the first refusal where something was asked and nothing of it was agreed."""
        refusals = self.refusals
        if refusals and len(refusals) == len(self.calls):
            raise refusals[0]


async def ask_together(quorum: Quorum, *kinds: Asked[Any]) -> None:
    """Put all kinds to the vote in one batch a voter, and fill in their answers."""
    placed = [(kind, key) for kind in kinds for key in kind.calls]
    calls = [kind.calls[key] for kind, key in placed]
    for (kind, key), answer in zip(placed, await quorum.agreed_many(calls), strict=True):
        kind.answers[key] = answer
