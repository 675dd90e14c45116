"""What a proven read rests on: who told it, who agreed on it, who lied. And the parts that it is asked of."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Generic, Protocol, TypeVar

from attrs import field, frozen

from rpc.errors import EndpointFault, Malformed, RpcError
from rpc.evidence import ANSWER_CHARACTERS_MAX, Evidence, Testimony, cut
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


def evidence_of_refutation(lie: Refutation, at: datetime) -> Evidence:
    """A lie as evidence: what was told, and what the block says to it."""
    told = cut(json.dumps(lie.told), ANSWER_CHARACTERS_MAX)
    testimony = Testimony(lie.endpoint, f"{cut(str(lie.error), ANSWER_CHARACTERS_MAX)}; told: {told}", None, 0, True)
    return Evidence(lie.method, f"block 0x{lie.block_hash.hex()}", "refuted", at, (testimony,))


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
