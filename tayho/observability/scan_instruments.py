"""What is shown of the scanners of this process."""

from __future__ import annotations

from enum import Enum
from time import monotonic

from prometheus_client import CollectorRegistry, Counter, Gauge

# The one happening that is a success.
_LOOKED = "looked"


class ScanInstruments:
    """The instruments of the scanners, on the registry of the process."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._scans = Counter(
            "tayho_scans",
            "What scanners of this process met, by kind: looks that ended, failed or were cut off (looked, failed, "
            "late), work (new, known, again, waiting, dead), findings (finding)",
            ["kind", "what"],
            registry=registry,
        )
        self._age_seconds = Gauge(
            "tayho_scan_age_seconds", "Since the last look of a kind that came to its end", ["kind"], registry=registry
        )
        self._succeeded_at: dict[str, float] = {}

    def begin(self, kind: str) -> None:
        """From now on the kind's looks are counted, and their absence is seen."""
        self._succeeded_at[kind] = monotonic()
        self._age_seconds.labels(kind=kind).set_function(lambda: monotonic() - self._succeeded_at[kind])

    def observe(self, kind: str, what: Enum, count: int) -> None:
        """Count something that a scanner met."""
        if count:
            self._scans.labels(kind=kind, what=what.value).inc(count)
        if what.value == _LOOKED:
            self._succeeded_at[kind] = monotonic()
