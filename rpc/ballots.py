"""What voters said, and what follows from it: pure (RPC-5)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Generic, TypeAlias, TypeVar

from attrs import frozen

from rpc.errors import NoQuorum, Reverted, RpcError
from rpc.projections import completed, voted
from rpc.reads import Call

T = TypeVar("T")

# Questions that the EVM may answer by reverting: there an agreed revert is the truth. Of a receipt, a nonce or a hash
# no error can be the truth, so there an error is no vote.
_MAY_REVERT = frozenset({"eth_call", "eth_estimateGas"})


@frozen
class Vote:
    """What one voter said: a typed value, or why there is none. `seconds` is how long it took."""

    voter: str
    outcome: object
    seconds: float


@frozen
class Agreed(Generic[T]):
    """A value that a majority of the configured voters gave. `votes` are those that came, in configured order.

    `dissenters` said something else that is readable; a voter without a usable answer is none.
    """

    value: T
    votes: tuple[Vote, ...]
    dissenters: tuple[str, ...]


@frozen
class AgreedRevert:
    """A majority says that the call reverts with this data."""

    data: bytes
    votes: tuple[Vote, ...]
    dissenters: tuple[str, ...]


Verdict: TypeAlias = Agreed[T] | AgreedRevert | NoQuorum


def majority_of(configured: int) -> int:
    """The smallest number of voters that no other majority can contradict. Raises ValueError without voters."""
    if configured < 1:
        raise ValueError("a quorum needs at least one voter")
    return configured // 2 + 1


@frozen
class _Ballot:
    """What a vote is counted as. Two are equal exactly where the fields that matter are."""

    content: object
    revert: bytes | None = None


class Poll(Generic[T]):
    """One question to all voters. Every voter has one vote; the first one counts, however often it was asked.

    Invariant: once `is_decided`, later votes are recorded and change nothing: a majority of the configured can have
    no second one beside it.
    """

    def __init__(self, call: Call[T], voters: Sequence[str], project: Callable[[T], object] = voted) -> None:
        self._call = call
        self._voters = tuple(voters)
        self._project = project
        self._needed = majority_of(len(self._voters))
        self._votes: dict[str, Vote] = {}
        self._own: dict[str, _Ballot] = {}
        # What each is counted as: their own, or a header that has all that theirs leaves out.
        self._ballots: Mapping[str, _Ballot] = {}

    def cast(self, voter: str, outcome: T | RpcError, seconds: float) -> None:
        """Record a voter's answer. Raises ValueError for a stranger."""
        if voter not in self._voters:
            raise ValueError(f"{voter} is no voter here")
        if voter in self._votes:
            return
        self._votes[voter] = Vote(voter, outcome, seconds)
        ballot = self._ballot_of(outcome)
        if ballot is not None:
            self._own[voter] = ballot
            contents = completed({each: own.content for each, own in self._own.items()})
            self._ballots = {each: _Ballot(contents[each], own.revert) for each, own in self._own.items()}

    @property
    def is_decided(self) -> bool:
        """Whether no further vote can change the verdict: a majority agrees, or none can any more."""
        counts = [self._count(ballot) for ballot in self._ballots.values()]
        best = max(counts, default=0)
        return best >= self._needed or best + len(self._voters) - len(self._votes) < self._needed

    def verdict(self) -> Verdict[T]:
        """What follows from the votes that came; a vote that did not come is none."""
        votes = tuple(self._votes[voter] for voter in self._voters if voter in self._votes)
        winner = next((ballot for ballot in self._ballots.values() if self._count(ballot) >= self._needed), None)
        if winner is None:
            return NoQuorum(self._call.method, self._needed, self._voters, votes)
        dissenters = tuple(voter for voter in self._voters if self._ballots.get(voter, winner) != winner)
        if winner.revert is not None:
            return AgreedRevert(winner.revert, votes, dissenters)
        first = next(vote for vote in votes if self._own.get(vote.voter) == winner)
        value: T = first.outcome  # pyright: ignore[reportAssignmentType]
        return Agreed(voted(value), votes, dissenters)

    def _count(self, ballot: _Ballot) -> int:
        return sum(other == ballot for other in self._ballots.values())

    def _ballot_of(self, outcome: T | RpcError) -> _Ballot | None:
        if not isinstance(outcome, RpcError):
            return _Ballot(self._project(outcome))
        if isinstance(outcome, Reverted) and self._call.method in _MAY_REVERT:
            return _Ballot(None, outcome.data)
        return None
