"""What is shown of the endpoints of a chain (RPC-10). URLs are named without credentials, path and query."""

from __future__ import annotations

from collections.abc import Sequence

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from rpc.circuit import State
from rpc.member_status import HedgeSeen, MemberStatus
from rpc.observation import Observation

_RPC_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
_CIRCUIT_STATES: dict[State, float] = {"closed": 0, "half-open": 0.5, "open": 1}


class EndpointInstruments:
    """The instruments of questions, races and endpoints, on the registry of the process."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._rpc_requests = Counter(
            "tayho_rpc_requests", "Questions to endpoints", ["endpoint", "method", "outcome"], registry=registry
        )
        self._rpc_seconds = Histogram(
            "tayho_rpc_seconds",
            "How long endpoints took; cancelled questions count as at least so long",
            ["endpoint", "method"],
            buckets=_RPC_SECONDS,
            registry=registry,
        )
        # Found once: a busy process asks thousands of questions a second.
        self._observed: dict[tuple[str, str, str], tuple[Counter, Histogram]] = {}
        self._rpc_hedges = Counter(
            "tayho_rpc_hedges",
            "Races of a slow endpoint against a second one, by who had the answer",
            ["endpoint", "method", "won"],
            registry=registry,
        )
        self._rpc_score = Gauge(
            "tayho_rpc_score", "How good an endpoint is at a method, up to 1", ["endpoint", "method"], registry=registry
        )
        self._rpc_circuit_open = Gauge(
            "tayho_rpc_circuit_open",
            "1 while an endpoint is left alone, 0.5 while its probe decides",
            ["endpoint", "method_class"],
            registry=registry,
        )
        self._rpc_head_lag_blocks = Gauge(
            "tayho_rpc_head_lag_blocks", "Blocks off the head that most have reached", ["endpoint"], registry=registry
        )
        self._rpc_dissents = Gauge(
            "tayho_rpc_dissents", "Times a quorum decided against an endpoint", ["endpoint"], registry=registry
        )

    def observe_rpc(self, seen: Observation) -> None:
        """Count one question to an endpoint."""
        key = (seen.endpoint, seen.method, seen.outcome)
        found = self._observed.get(key)
        if found is None:
            found = self._observed[key] = (
                self._rpc_requests.labels(endpoint=seen.endpoint, method=seen.method, outcome=seen.outcome),
                self._rpc_seconds.labels(endpoint=seen.endpoint, method=seen.method),
            )
        found[0].inc()
        found[1].observe(seen.seconds)

    def observe_hedge(self, seen: HedgeSeen) -> None:
        """Count one race that had a hedge."""
        self._rpc_hedges.labels(endpoint=seen.first, method=seen.method, won=str(seen.won).lower()).inc()

    def show(self, members: Sequence[MemberStatus]) -> None:
        """How the endpoints for reads stand. Each has a name of its own: of two shown alike, one has a number."""
        for gauge in (self._rpc_score, self._rpc_circuit_open, self._rpc_head_lag_blocks, self._rpc_dissents):
            gauge.clear()
        for member in sorted(members, key=lambda one: one.score, reverse=True):
            for method, status in member.methods.items():
                self._rpc_score.labels(endpoint=member.endpoint, method=method).set(status.score)
            for work, state in member.circuits.items():
                shown = self._rpc_circuit_open.labels(endpoint=member.endpoint, method_class=work)
                shown.set(_CIRCUIT_STATES[state])
            self._rpc_head_lag_blocks.labels(endpoint=member.endpoint).set(member.lag_blocks)
            self._rpc_dissents.labels(endpoint=member.endpoint).set(member.dissents)
