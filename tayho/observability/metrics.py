"""The metrics of a process, on a registry of its own. The words are those of the specification, units last."""

from __future__ import annotations

import platform
from collections.abc import Awaitable, Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from enum import Enum
from importlib.metadata import PackageNotFoundError, version
from math import nan
from time import monotonic
from typing import TypeAlias, cast

import prometheus_client
import trio
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.exposition import generate_latest

from rpc.member_status import HedgeSeen, MemberStatus
from rpc.observation import Observation
from tayho.kernel.address import Address
from tayho.kernel.jobs import (
    Attempt,
    Completed,
    Ended,
    Job,
    NotActionable,
    Outcome,
    Postponed,
    Quarantined,
    StaleAttempt,
)
from tayho.observability.backlog_instruments import BacklogInstruments
from tayho.observability.endpoint_instruments import EndpointInstruments
from tayho.observability.intent_instruments import IntentInstruments
from tayho.observability.process_instruments import ProcessInstruments
from tayho.observability.scan_instruments import ScanInstruments
from tayho.observability.transaction_instruments import TransactionInstruments

# The creation times would double every counter's lines, for a reader that we have not met.
prometheus_client.disable_created_metrics()

Handler: TypeAlias = Callable[[Job, Attempt], Awaitable[Outcome]]

_ATTEMPT_SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)
_OUTCOMES: dict[type[Outcome], str] = {
    Completed: "completed",
    NotActionable: "not_actionable",
    Ended: "ended",
    Postponed: "postponed",
    Quarantined: "quarantined",
}

_DELIVERIES_FROM_ZERO = {"ended": ("completed", "dead", "retry"), "stalled": ("",), "lock_lost": ("",)}


def _ending(error: BaseException) -> str:
    """What became of an attempt whose handler raised."""
    if isinstance(error, StaleAttempt):
        return "stale"
    cancelled = isinstance(error, trio.Cancelled)
    if isinstance(error, BaseExceptionGroup):
        cancelled = cast("BaseExceptionGroup[BaseException]", error).split(trio.Cancelled)[1] is None
    return "cut_off" if cancelled else "failed"


def _version() -> str:
    try:
        return version("tayho")
    except PackageNotFoundError:
        return "uninstalled"


class Metrics:
    """Every instrument of the process. The daemon hands its methods to whoever has something to tell."""

    def __init__(self) -> None:
        self._registry = registry = CollectorRegistry()
        prometheus_client.ProcessCollector(registry=registry)
        self._attempts = Counter(
            "tayho_attempts",
            "Attempts of this process by how their handler ended",
            ["kind", "outcome"],
            registry=registry,
        )
        self._attempt_seconds = Histogram(
            "tayho_attempt_seconds", "How long handlers ran", ["kind"], buckets=_ATTEMPT_SECONDS, registry=registry
        )
        self._deliveries = Counter(
            "tayho_deliveries",
            "What happened to deliveries and jobs in this process: published, declined, ended, lost, stalled",
            ["what", "label"],
            registry=registry,
        )
        self._handlers_running = Gauge("tayho_handlers_running", "Handlers that run now", registry=registry)
        self._backlog = BacklogInstruments(registry)
        self._lane_in_flight = Gauge("tayho_lane_in_flight", "Nonces in flight", ["signer"], registry=registry)
        self._lane_next_nonce = Gauge("tayho_lane_next_nonce", "The nonce fence", ["signer"], registry=registry)
        self._lane_open = Gauge(
            "tayho_lane_open", "1 while the lane takes new work, 0 while it is held", ["signer"], registry=registry
        )
        self._lane_state = Gauge(
            "tayho_lane_state", "1 for the state that the lane is in", ["signer", "state"], registry=registry
        )
        self._lineages_open = Gauge("tayho_lineages_open", "Lineages of the pool that are not final", registry=registry)
        self._halts_open = Gauge(
            "tayho_halts_open", "Open halts of the pool: while above 0, nothing is signed or sent", registry=registry
        )
        self._endpoints = EndpointInstruments(registry)
        self.transactions = TransactionInstruments(registry)
        self.scans = ScanInstruments(registry)
        self.intents = IntentInstruments(registry)
        self.process = ProcessInstruments(registry)
        self._database_pool_size = Gauge("tayho_database_pool_size", "The most connections", registry=registry)
        self._database_pool_open = Gauge("tayho_database_pool_open", "Open connections", registry=registry)
        self._database_pool_idle = Gauge("tayho_database_pool_idle", "Open connections unused now", registry=registry)
        self._draining = Gauge("tayho_draining", "1 from the request to stop on", registry=registry)
        self._refresh_failed = Gauge(
            "tayho_refresh_failed", "1 while gauges cannot be read from their source", ["source"], registry=registry
        )
        build = Gauge("tayho_build_info", "1, with the version", ["version", "python"], registry=registry)
        build.labels(version=_version(), python=platform.python_version()).set(1)

    def begin(self) -> None:
        """Show as 0 what alerts count the increase of: a series that began with its first event would show none."""
        for what, labels in _DELIVERIES_FROM_ZERO.items():
            for label in labels:
                self._deliveries.labels(what=what, label=label)
        self.transactions.begin()

    def watched(self, kind: str, handler: Handler) -> Handler:
        """The handler, counted and timed: whatever it returns or raises passes through unchanged."""

        async def watched_handler(job: Job, attempt: Attempt) -> Outcome:
            with self._attempt(kind) as ended:
                outcome = await handler(job, attempt)
                ended.append(_OUTCOMES.get(type(outcome), "unknown"))
                return outcome

        return watched_handler

    @contextmanager
    def _attempt(self, kind: str) -> Generator[list[str]]:
        started = monotonic()
        ended: list[str] = []
        self._handlers_running.inc()
        try:
            yield ended
        except BaseException as error:
            ended.append(_ending(error))
            raise
        finally:
            self._handlers_running.dec()
            self._attempts.labels(kind=kind, outcome=ended[-1]).inc()
            self._attempt_seconds.labels(kind=kind).observe(monotonic() - started)

    def observe_delivery(self, what: Enum, label: str, count: int) -> None:
        """Count something that coordination saw happen."""
        if count:
            self._deliveries.labels(what=what.value, label=label).inc(count)

    def observe_rpc(self, seen: Observation) -> None:
        """Count one question to an endpoint."""
        self._endpoints.observe_rpc(seen)

    def observe_hedge(self, seen: HedgeSeen) -> None:
        """Count one race that had a hedge."""
        self._endpoints.observe_hedge(seen)

    def show_endpoints(self, members: Sequence[MemberStatus]) -> None:
        """How the endpoints for reads stand."""
        self._endpoints.show(members)

    def show_outbox(self, *, rows: float, unpublished: float, oldest_due_seconds: float) -> None:
        """How far the outbox is behind."""
        self._backlog.show_outbox(rows=rows, unpublished=unpublished, oldest_due_seconds=oldest_due_seconds)

    def show_ages(self, ages: Iterable[tuple[str, float, float]]) -> None:
        """Role, and the seconds that its oldest job waits and its oldest attempt runs; a role not named has neither."""
        self._backlog.show_ages(ages)

    def forget_ages(self) -> None:
        """The ages of jobs cannot be read."""
        self._backlog.forget_ages()

    def show_lane(self, signer: Address, *, in_flight: int, next_nonce: int, state: str) -> None:
        """One lane of the pool, which takes new work in the state `open` alone."""
        self._lane_in_flight.labels(signer=signer.checksummed).set(in_flight)
        self._lane_next_nonce.labels(signer=signer.checksummed).set(next_nonce)
        self._lane_open.labels(signer=signer.checksummed).set(state == "open")
        self._lane_state.labels(signer=signer.checksummed, state=state).set(1)

    def forget_lanes(self) -> None:
        """Drop the lanes shown so far: those to come are all there are, or none is known."""
        for gauge in (self._lane_in_flight, self._lane_next_nonce, self._lane_open, self._lane_state):
            gauge.clear()

    def show_lineages_open(self, count: float) -> None:
        self._lineages_open.set(count)

    def show_halts_open(self, count: float) -> None:
        self._halts_open.set(count)

    def show_database_pool(self, *, size_max: int, open_now: int, idle: int) -> None:
        self._database_pool_size.set(size_max)
        self._database_pool_open.set(open_now)
        self._database_pool_idle.set(idle)

    def show_draining(self, *, draining: bool) -> None:
        self._draining.set(draining)

    def show_refreshed(self, source: str, *, failed: bool) -> None:
        """Whether the gauges of a source are fresh. Those that are not read as NaN, never as their last value."""
        self._refresh_failed.labels(source=source).set(failed)

    def forget_outbox(self) -> None:
        """The outbox cannot be read."""
        self.show_outbox(rows=nan, unpublished=nan, oldest_due_seconds=nan)

    def forget_lineages(self) -> None:
        """The lineages cannot be read."""
        self.show_lineages_open(nan)

    def forget_halts(self) -> None:
        """The halts cannot be read."""
        self.show_halts_open(nan)

    def render(self) -> bytes:
        """Everything in Prometheus's text format 0.0.4."""
        return generate_latest(self._registry)
