"""The cells of the matrix: each fault, where it is, and which way is asked under it; and what came of one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, TypeAlias

from attrs import frozen

from tests.rpc.front.ground import Ground
from tests.rpc.matrix.broken_answers import broken_answers
from tests.rpc.matrix.fault import Fault, Must, Placement, Question, Way
from tests.rpc.matrix.wrong_stories import wrong_stories

Kind: TypeAlias = Literal["value", "no quorum", "error", "raw", "late", "crashed"]

_FAULTY: dict[Placement, tuple[int, ...]] = {"first": (0,), "second": (1,), "all": (0, 1, 2), "two of five": (0, 1)}


@frozen
class Outcome:
    """What a side answered: a value in the form of `forms`, or what it failed with. `name` is the error's class."""

    kind: Kind
    value: object = None
    name: str = ""

    def __str__(self) -> str:
        return self.name or self.kind


@frozen
class Cell:
    """One fault, put somewhere, met on one way."""

    fault: Fault
    placement: Placement
    way: Way
    must: Must

    @property
    def endpoints(self) -> int:
        return 5 if self.placement == "two of five" else 3

    @property
    def faulty(self) -> tuple[int, ...]:
        """The endpoints that have the fault, by place."""
        return _FAULTY[self.placement]

    @property
    def question(self) -> Question | Literal["final"]:
        if self.way == "finality":
            return "final"
        return self.fault.vote if self.way == "vote" else self.fault.read

    def __str__(self) -> str:
        return f"{self.fault.name}, {self.placement}, {self.way}"


@frozen
class Played:
    """A cell, what came of it, after how long, and how often the fault was met."""

    cell: Cell
    outcome: Outcome
    truth: object
    seconds: float
    met: int

    @property
    def is_red(self) -> bool:
        return not is_green(self.cell.must, self.outcome, self.truth)


def is_green(must: Must, outcome: Outcome, truth: object) -> bool:
    """Whether an outcome is one of those that may be."""
    if outcome.kind == "value":
        not_yet = outcome.value is None and must is Must.NOT_BE_WRONG_OR_NULL
        return outcome.value == truth or not_yet
    return outcome.kind in ("no quorum", "error") and must is not Must.BE_RIGHT


def all_faults(ground: Ground) -> list[Fault]:
    """Every fault, in the order of the published table."""
    return [*broken_answers(), *wrong_stories(ground)]


def cells_of(faults: Iterable[Fault]) -> Sequence[Cell]:
    """Every cell of these faults that is judged."""
    return [Cell(fault, placement, way, must) for fault in faults for (way, placement), must in fault.demands.items()]
