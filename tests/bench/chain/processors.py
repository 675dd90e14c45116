"""Which program takes the processors while a side is kept busy: with it a run says what bounds its figures."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection, Mapping
from contextlib import suppress

import psutil
from attrs import frozen

REPLICAS = "replicas"
BENCH = "bench"
PROGRAMS = {"postgres": "postgresql", "anvil": "node", "redis-server": "redis"}
# Of what there is: above it, a process or a machine has nothing left.
BUSY_SHARE = 0.85


@frozen
class ProcessorUse:
    """Processor seconds of each program that this run started, at one moment."""

    at: float
    seconds: Mapping[str, float]

    @classmethod
    def now(cls, replicas: Collection[int]) -> ProcessorUse:
        """`replicas` are their process ids; the other programs are told by their names."""
        seconds: Counter[str] = Counter()
        this = psutil.Process()
        for process in (this, *this.children(recursive=True)):
            with suppress(psutil.NoSuchProcess):
                name = BENCH if process is this else PROGRAMS.get(process.name(), "others")
                times = process.cpu_times()
                seconds[REPLICAS if process.pid in replicas else name] += times.user + times.system
        return cls(time.monotonic(), seconds)

    def cores_since(self, earlier: ProcessorUse) -> Mapping[str, float]:
        """How many processors each program kept busy."""
        elapsed = self.at - earlier.at
        return {
            name: (taken - earlier.seconds.get(name, 0)) / elapsed
            for name, taken in self.seconds.items()
            if taken > earlier.seconds.get(name, 0)
        }


def bound(cores: Mapping[str, float], replicas: int, processors: int) -> str:
    """What the figures are bounded by, in words."""
    whole = sum(cores.values())
    shares = ", ".join(f"{name} {taken:.2f}" for name, taken in sorted(cores.items(), key=lambda one: -one[1]))
    if cores.get(REPLICAS, 0) >= BUSY_SHARE * replicas:
        what = "one Python process has one processor, and used it up" if replicas == 1 else "each replica's processor"
    elif whole >= BUSY_SHARE * processors:
        what = f"the machine's {processors} processors, which all programs share"
    else:
        what = "no processor of this run: other programs' load, waiting for blocks, or lanes that are full"
    return f"bounded by {what} ({shares}; {whole:.2f} of {processors})"
