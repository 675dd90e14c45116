"""The members of a pool with what is known of them: in which order to ask them, and how they stand. Asks nobody."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import define, field

from rpc.board import CircuitBoard
from rpc.health import UNKNOWN_LATENCY_SECONDS, Preference, Ranked, lags_of
from rpc.member import GuardedEndpoint
from rpc.member_status import MemberStatus, MethodStatus
from rpc.method_traits import MethodClass, traits_of


@define(eq=False)
class Roster:
    """The members in the order they were configured."""

    members: Sequence[GuardedEndpoint]
    board: CircuitBoard
    _preference: Preference = field(factory=Preference, init=False)

    def in_order(self, method: str, now: float) -> Sequence[GuardedEndpoint]:
        """The best first; behind those that are live, those whose circuit waits for its probe. Never empty."""
        lags = self.lags()
        work = traits_of(method).work
        # Who was never asked is presumed to be no quicker than the others: a slow first answer, which had to connect
        # and check the chain, must not send the traffic to strangers.
        known = (member.health.latency_seconds(method) for member in self.members)
        presumed = max((seconds for seconds in known if seconds is not None), default=UNKNOWN_LATENCY_SECONDS)
        live = [
            Ranked(member.place, member.health.score(method, lags[member.place], now, presumed))
            for member in self.members
            if self.board.is_closed(member.place, work, now)
        ]
        ordered = [self.members[place] for place in self._preference.order(method, live)]
        return ordered if len(live) == len(self.members) else [*ordered, *self.waiting_for_probe(work, now)]

    def waiting_for_probe(self, work: MethodClass, now: float) -> list[GuardedEndpoint]:
        """Those that were left alone long enough, and that nobody is probing."""
        return [member for member in self.members if self.board.circuit(member.place, work).wants_probe(now)]

    def lags(self) -> Sequence[int]:
        """How many blocks each member is off."""
        return lags_of([member.health.head for member in self.members])

    def status(self, now: float) -> Sequence[MemberStatus]:
        """How every member stands."""
        return [self._status_of(member, lag, now) for member, lag in zip(self.members, self.lags(), strict=True)]

    def _status_of(self, member: GuardedEndpoint, lag: int, now: float) -> MemberStatus:
        health = member.health
        states = self.board.states(member.place, now)
        causes = {work: self.board.circuit(member.place, work).cause for work in states}
        return MemberStatus(
            endpoint=member.shown,
            score=health.score("", lag, now),
            methods={
                method: MethodStatus(health.score(method, lag, now), track.latency_seconds)
                for method, track in health.methods.items()
            },
            circuits=states,
            circuit_causes={work: causes[work] for work, state in states.items() if state != "closed"},
            head=health.head,
            lag_blocks=lag,
            requests=member.requests,
            faults=member.faults,
            hedges_fired=member.hedges_fired,
            hedges_won=member.hedges_won,
            dissents=member.dissents,
        )
