"""How much work is open, and how long the oldest of it waits and runs."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client import CollectorRegistry, Gauge


class BacklogInstruments:
    """Gauges of the outbox and of each role's queue."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._rows = Gauge("tayho_outbox_rows", "Jobs that have not ended", registry=registry)
        self._unpublished = Gauge("tayho_outbox_unpublished", "Jobs that were never published", registry=registry)
        self._oldest_due_seconds = Gauge(
            "tayho_outbox_oldest_due_seconds", "How long the oldest due row waits for a publisher", registry=registry
        )
        self._queue_oldest_seconds = Gauge(
            "tayho_queue_oldest_seconds", "How long the oldest due job waits for a worker", ["role"], registry=registry
        )
        self._processing_oldest_seconds = Gauge(
            "tayho_processing_oldest_seconds",
            "How long the oldest attempt has been running",
            ["role"],
            registry=registry,
        )

    def show_outbox(self, *, rows: float, unpublished: float, oldest_due_seconds: float) -> None:
        """How far the outbox is behind."""
        self._rows.set(rows)
        self._unpublished.set(unpublished)
        self._oldest_due_seconds.set(oldest_due_seconds)

    def show_ages(self, ages: Iterable[tuple[str, float, float]]) -> None:
        """Role, and the seconds that its oldest job waits and its oldest attempt runs; a role not named has neither."""
        self.forget_ages()
        for role, waiting_seconds, running_seconds in ages:
            self._queue_oldest_seconds.labels(role=role).set(waiting_seconds)
            self._processing_oldest_seconds.labels(role=role).set(running_seconds)

    def forget_ages(self) -> None:
        """The ages of jobs cannot be read."""
        self._queue_oldest_seconds.clear()
        self._processing_oldest_seconds.clear()
