"""What a proven read rests on: who told it, who agreed on it, who lied. And the parts that it is asked of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, Protocol, TypeVar

from attrs import field, frozen

from rpc.errors import EndpointFault, Malformed, RpcError
from rpc.member import Member
from rpc.proof_errors import ProofRefuted
from rpc.reads import Call
from rpc.rendering import Json

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Agreement(Protocol[T_co]):
    """What a majority agreed on, with whatever else the quorum tells of it."""

    @property
    def value(self) -> T_co: ...


class Voting(Protocol):
    """A quorum of the configured endpoints. Raises an RpcError where no majority agrees."""

    async def agreed(self, call: Call[T]) -> Agreement[T]: ...


@frozen
class Refutation:
    """Evidence of a lie: who told what about which block, and what of it the block refutes. `told` is our rendering."""

    endpoint: str
    method: str
    block_hash: bytes
    error: ProofRefuted
    told: Json = field(repr=False)


@frozen
class Proven(Generic[T_co]):
    """An answer, and what it rests on.

    `by` is the endpoint whose answer was proven; None where votes decided. `agreements` are what a majority agreed on:
    the header of the block, or then the votes themselves after it. `refuted` are the endpoints that lied. `reasons`
    say for each endpoint that was asked and proved nothing, why.
    """

    value: T_co
    by: str | None
    agreements: tuple[Agreement[object], ...] = field(repr=False)
    refuted: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()


@frozen
class Silenced:
    """A member caught lying: it has a seat in the quorum and no voice."""

    member: Member

    @property
    def shown(self) -> str:
        return self.member.shown

    async def ask(self, call: Call[T]) -> T:
        reason = Malformed("its answer about this block was refuted, so it has no vote on it")
        raise EndpointFault(self.shown, reason, call.method)

    async def ask_many(self, calls: Sequence[Call[T]]) -> list[T | RpcError]:
        reason = Malformed("its answer about this block was refuted, so it has no vote on it")
        return [EndpointFault(self.shown, reason, call.method) for call in calls]
