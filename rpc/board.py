"""The circuits of several endpoints together: here it is known which one is the last that lives. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from rpc.circuit import Circuit, CircuitRules, Fault, Pass, State
from rpc.method_traits import METHOD_CLASSES, MethodClass


class CircuitBoard:
    """A circuit for each endpoint and class of methods; endpoints are known by their place.

    Invariant: of each class at least one circuit is closed. The last one is told its faults and stays closed.
    """

    def __init__(self, endpoints: int, rules: CircuitRules) -> None:
        self._circuits: list[dict[MethodClass, Circuit]] = [
            {work: Circuit(rules) for work in METHOD_CLASSES} for _ in range(endpoints)
        ]

    def circuit(self, place: int, work: MethodClass) -> Circuit:
        """One circuit, to look at."""
        return self._circuits[place][work]

    def states(self, place: int, now: float) -> Mapping[MethodClass, State]:
        """Where the circuits of one endpoint stand."""
        return {work: circuit.state(now) for work, circuit in self._circuits[place].items()}

    def is_closed(self, place: int, work: MethodClass, now: float) -> bool:
        """Whether the endpoint may be asked like any other."""
        return self._circuits[place][work].state(now) == "closed"

    def any_open(self, work: MethodClass, now: float) -> bool:
        """Whether some endpoint is left alone, so that the others carry its load."""
        return any(circuits[work].state(now) != "closed" for circuits in self._circuits)

    def enter(self, place: int, work: MethodClass, now: float) -> Pass | None:
        """Leave to ask an endpoint, or None."""
        return self._circuits[place][work].enter(now)

    def failed(self, place: int, work: MethodClass, leave: Pass, fault: Fault, now: float) -> None:
        """Tell a fault."""
        self._circuits[place][work].failed(leave, fault, now, is_last_live=self._is_last_live(place, work, now))

    def distrust(self, place: int, fault: Fault, now: float) -> None:
        """Open every circuit of an endpoint, for a fault that no class of methods escapes."""
        for work, circuit in self._circuits[place].items():
            if not self._is_last_live(place, work, now):
                circuit.force_open(fault, now)

    def _is_last_live(self, place: int, work: MethodClass, now: float) -> bool:
        return not any(
            circuits[work].state(now) == "closed" for other, circuits in enumerate(self._circuits) if other != place
        )
