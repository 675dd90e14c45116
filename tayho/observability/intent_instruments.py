"""What is shown of intents: what this process made of the line, and the line as PostgreSQL has it."""

from __future__ import annotations

from enum import Enum
from math import nan

from prometheus_client import CollectorRegistry, Counter, Gauge


class IntentInstruments:
    """The instruments of a relayer, on the registry of the process. Only who has a line shows its gauges."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry
        self._happened = Counter(
            "tayho_intents",
            "What this process made of the line: batched (batches), children (intents put into them), quarantined (by "
            "why no batch can carry them)",
            ["what", "label"],
            registry=registry,
        )
        self._line: tuple[Gauge, Gauge] | None = None

    def observe(self, what: Enum, label: str, count: int) -> None:
        """Count something that a relayer did."""
        if count:
            self._happened.labels(what=what.value, label=label).inc(count)

    def show_line(self, *, waiting: float, oldest_seconds: float) -> None:
        """The line as it is now."""
        if self._line is None:
            self._line = (
                Gauge("tayho_line_waiting", "Intents that wait for a batch", registry=self._registry),
                Gauge(
                    "tayho_line_oldest_seconds", "How long the first intent of the line waits", registry=self._registry
                ),
            )
        for gauge, number in zip(self._line, (waiting, oldest_seconds), strict=True):
            gauge.set(number)

    def forget_line(self) -> None:
        """The line cannot be read: no old number may pass for a present one."""
        self.show_line(waiting=nan, oldest_seconds=nan)
