"""One configured endpoint as a pool and a quorum see it: asked only while its circuit lets it be."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar

import trio
from attrs import define, field

from rpc.board import CircuitBoard
from rpc.circuit import Pass
from rpc.endpoint import Endpoint
from rpc.errors import CircuitOpen, EndpointFault, RpcError, WrongChain
from rpc.health import Health
from rpc.hedging import HedgeBudget, HedgeDelays
from rpc.method_traits import MethodClass, traits_of
from rpc.reads import Call
from rpc.verdicts import fault_in, is_throttled, speaks_of_health

T = TypeVar("T")


class Member(Protocol):
    """An endpoint that can be asked by itself. It bounds each of its answers in time and size."""

    @property
    def shown(self) -> str:
        """Its name in evidence, metrics and messages: scheme, host and port."""
        ...

    async def ask(self, call: Call[T]) -> T:
        """Its answer. Raises RpcRefused where it refuses, EndpointFault where it gives none or is left alone."""
        ...

    async def ask_many(self, calls: Sequence[Call[T]]) -> list[T | RpcError]:
        """Its answers in the order asked, each with its own error in place. Raises ValueError for a write."""
        ...


@define(eq=False)
class GuardedEndpoint:
    """An endpoint that keeps away from what fails, and learns from each answer. Implements Member.

    Cancelled questions teach nothing here: whoever cancelled knows why, and tells `health` if it was a lost race.
    """

    place: int
    endpoint: Endpoint
    board: CircuitBoard
    health: Health
    delays: HedgeDelays
    budget: HedgeBudget
    requests: int = field(default=0, init=False)
    faults: int = field(default=0, init=False)
    hedges_fired: int = field(default=0, init=False)
    hedges_won: int = field(default=0, init=False)
    dissents: int = field(default=0, init=False)

    @property
    def shown(self) -> str:
        return self.endpoint.shown

    async def ask(self, call: Call[T], deadline_seconds: float | None = None) -> T:
        """The answer. A circuit that is open raises EndpointFault(CircuitOpen) at once; half open, this is its probe.

        Raises ValueError for a write: those go to the one endpoint that is configured for them, past every guard.
        """
        if call.is_write:
            raise ValueError(f"{call.method} is a write: ask it of the endpoint for writes, never of a pool")
        work = traits_of(call.method).work
        leave = self._entered(call.method, work)
        started = trio.current_time()
        self.requests += 1
        is_told = False
        try:
            value = await self.endpoint.ask(call, deadline_seconds)
        except RpcError as error:
            is_told = self._failed(call.method, error, work, leave)
            raise
        else:
            self._answered(call.method, started)
            self.board.circuit(self.place, work).answered(leave, trio.current_time())
            is_told = True
            return value
        finally:
            if not is_told:
                self.board.circuit(self.place, work).released(leave)

    async def ask_many(self, calls: Sequence[Call[T]], deadline_seconds: float | None = None) -> list[T | RpcError]:
        """The answers in order. Where the circuit of one class is open, its questions are not asked."""
        outcomes: dict[int, T | RpcError] = {}
        leaves: dict[MethodClass, Pass] = {}
        for at, call in enumerate(calls):
            work = traits_of(call.method).work
            try:
                if work not in leaves:
                    leaves[work] = self._entered(call.method, work)
            except EndpointFault as closed:
                outcomes[at] = closed
        asked = [at for at in range(len(calls)) if at not in outcomes]
        self.requests += len(asked)
        told: set[MethodClass] = set()
        try:
            answers = await self.endpoint.ask_many([calls[at] for at in asked], deadline_seconds)
            outcomes.update(zip(asked, answers, strict=True))
            told = self._judge_batch([(calls[at].method, outcomes[at]) for at in asked], leaves)
        finally:
            for work in leaves.keys() - told:
                self.board.circuit(self.place, work).released(leaves[work])
        return [outcomes[at] for at in range(len(calls))]

    def overtaken(self, method: str, seconds: float) -> None:
        """It lost a race in which it began first, with no answer after `seconds`."""
        self.health.overtaken(method, seconds)
        self.delays.note(method, seconds, trio.current_time())

    def _entered(self, method: str, work: MethodClass) -> Pass:
        now = trio.current_time()
        leave = self.board.enter(self.place, work, now)
        if leave is None:
            circuit = self.board.circuit(self.place, work)
            raise EndpointFault(self.shown, CircuitOpen(work, circuit.seconds_left(now), circuit.cause), method)
        return leave

    def _answered(self, method: str, started: float) -> None:
        now = trio.current_time()
        self.health.succeeded(method, now - started, now)
        self.delays.note(method, now - started, now)

    def _failed(self, method: str, error: RpcError, work: MethodClass, leave: Pass) -> bool:
        """Learn from an error; whether the circuit was told."""
        now = trio.current_time()
        if is_throttled(error):
            self.budget.pushed_back(now)
        if speaks_of_health(error) is False:
            self.faults += 1
            self.health.failed(method, now)
        return self._tell(error, work, leave, now)

    def _tell(self, error: RpcError, work: MethodClass, leave: Pass, now: float) -> bool:
        fault = fault_in(error)
        if fault is None:
            if not isinstance(error, EndpointFault):
                # Refused in proper JSON-RPC: the endpoint works.
                self.board.circuit(self.place, work).answered(leave, now)
                return True
            return False
        self.board.failed(self.place, work, leave, fault, now)
        if isinstance(error, WrongChain):
            self.board.distrust(self.place, fault, now)
        return True

    def _judge_batch(self, outcomes: Sequence[tuple[str, object]], leaves: dict[MethodClass, Pass]) -> set[MethodClass]:
        """One word to each circuit for the whole batch: an answer if there was one, else the first fault.

        A batch is one exchange. Told item by item, a single lost connection would count fifty times.
        """
        told: set[MethodClass] = set()
        by_work: dict[MethodClass, list[tuple[str, object]]] = {}
        for method, outcome in outcomes:
            by_work.setdefault(traits_of(method).work, []).append((method, outcome))
        for work, seen in by_work.items():
            now = trio.current_time()
            method, outcome = min(seen, key=lambda one: _told_last(one[1]))
            if isinstance(outcome, RpcError):
                if self._failed(method, outcome, work, leaves[work]):
                    told.add(work)
            else:
                self.health.whole.succeeded_untimed(now)
                self.board.circuit(self.place, work).answered(leaves[work], now)
                told.add(work)
        return told


def _told_last(outcome: object) -> int:
    """Answers first, then faults, then what says nothing of the endpoint."""
    if not isinstance(outcome, EndpointFault):
        return 0
    return 2 if fault_in(outcome) is None else 1
