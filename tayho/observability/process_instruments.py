"""What is shown of a process as a whole: whether it may be given work, and whether its tasks get their turn."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client import CollectorRegistry, Gauge, Histogram

# A turn that comes a second late has been kept by one step; thirty are a process that hangs.
_LATE_SECONDS = (0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)


class ProcessInstruments:
    """The instruments of readiness and of the loop, on the registry of the process."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._ready = Gauge("tayho_ready", "1 while the process may be given work, as /readyz says", registry=registry)
        self._unready = Gauge(
            "tayho_unready", "1 for each check of /readyz that speaks against it", ["check"], registry=registry
        )
        self._loop_late = Histogram(
            "tayho_loop_late_seconds",
            "How late a task got its turn that wants one every second",
            buckets=_LATE_SECONDS,
            registry=registry,
        )

    def show_readiness(self, checks: Iterable[str]) -> None:
        """Which checks speak against it now; none, and it is ready."""
        self._unready.clear()
        found = set(checks)
        for check in found:
            self._unready.labels(check=check).set(1)
        self._ready.set(not found)

    def observe_loop(self, late_seconds: float) -> None:
        """Note how late one turn came."""
        self._loop_late.observe(max(late_seconds, 0))
