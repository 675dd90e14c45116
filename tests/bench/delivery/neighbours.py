"""What else ran on the machine during a part: a figure taken beside a busy neighbour says little."""

from __future__ import annotations

from contextlib import suppress

import psutil
from attrs import frozen


@frozen
class ProcessorTimes:
    """Processor seconds since the machine started: all there were, those not idle, and those of this run."""

    whole: float
    busy: float
    ours: float

    @classmethod
    def now(cls) -> ProcessorTimes:
        """This run is this process and all below it; the time of those that ended is with whoever waited for them."""
        times = psutil.cpu_times()
        whole = sum(times) - getattr(times, "guest", 0) - getattr(times, "guest_nice", 0)
        myself = psutil.Process()
        ours = sum(_seconds_of(process) for process in [myself, *myself.children(recursive=True)])
        return cls(whole, whole - times.idle - getattr(times, "iowait", 0), ours)

    def others_share_since(self, earlier: ProcessorTimes) -> float:
        """The share of the machine that other programs took since then, 0 to 1."""
        whole = self.whole - earlier.whole
        others = (self.busy - earlier.busy) - (self.ours - earlier.ours)
        return min(max(others / whole, 0.0), 1.0) if whole > 0 else 0.0


def _seconds_of(process: psutil.Process) -> float:
    with suppress(psutil.NoSuchProcess):
        times = process.cpu_times()
        return times.user + times.system + times.children_user + times.children_system
    return 0.0
