"""What is lost, one case each. The cases come out of `recorded.txt`, which a run of the play wrote (recording.py)."""

from itertools import product
from pathlib import Path
from typing import Final, Literal, TypeAlias

from attrs import frozen

from tests.sweep.stage import Stage

RECORDED: Final = Path(__file__).with_name("recorded.txt")
Server: TypeAlias = Literal["postgres", "redis"]
# What leads to lookups that an undisturbed play has no need of: these are swept too, after its answer was lost.
DISTURBED: Final = "moveToActive"
_THEN: Final = f"{DISTURBED}, then "
# What travels in pipelines, or serves several ends: a later one of them is lost as well as the first.
_ORDINALS: Final = {
    # A pause; numbers set and taken away; the replay of one and of many; the end of the pause.
    "storage/session.commit after coordination/control.record_action": (1, 2, 4, 5, 6, 7),
    # The cancellation of one that waits, of many, and of one that runs.
    "storage/session.commit after coordination/control.states_of": (1, 2, 3),
    "addPrioritizedJob": (1, 3),
    "getStateV2": (1, 2),
    "moveToActive": (1, 3),
    "moveToDelayed": (1, 2, 4),
    "moveToFinished": (1, 3, 6),
}
# How a script goes where Redis does not know it yet.
LOADING: Final = "EVAL"


@frozen
class Passed:
    """A script, a command or a statement that passed in a recorded play."""

    server: Server
    # As the proxy calls it; after `moveToActive, then` where it passed only once the play was disturbed.
    name: str

    @property
    def label(self) -> str:
        return self.name.removeprefix(_THEN)

    @property
    def is_of_disturbed(self) -> bool:
        return self.name.startswith(_THEN)


@frozen
class Case:
    """The n-th request for `passed` is lost, or only its answer."""

    passed: Passed
    nth: int
    lost: Literal["answer", "request"]

    def __str__(self) -> str:
        ordinal = f" #{self.nth}" if self.nth > 1 else ""
        return f"{self.lost} of {self.passed.name}{ordinal}"

    def set_fault(self, stage: Stage) -> None:
        proxy = stage.redis if self.passed.server == "redis" else stage.postgres
        if self.passed.is_of_disturbed:
            proxy.swallow_answer_to(DISTURBED)
        swallow = proxy.swallow_answer_to if self.lost == "answer" else proxy.swallow_request
        swallow(self.passed.label, nth=self.nth, then=self.passed.is_of_disturbed)


def recorded() -> list[Passed]:
    """What `recorded.txt` lists."""
    lines = RECORDED.read_text(encoding="utf-8").splitlines()
    return [passed_of(line) for line in lines if line and not line.startswith("#")]


def passed_of(line: str) -> Passed:
    server, _, name = line.partition(": ")
    assert server in ("postgres", "redis"), f"{RECORDED.name}: {line!r} names neither postgres nor redis"
    return Passed(server, name)


def line_of(passed: Passed) -> str:
    return f"{passed.server}: {passed.name}"


def labels_of(server: Server) -> frozenset[str]:
    """What passed to this server, by the proxy's names."""
    return frozenset(passed.label for passed in recorded() if passed.server == server)


def cases() -> list[Case]:
    """Every recorded thing, its answer lost and its request lost."""
    return [
        Case(passed, nth, lost)
        for passed, lost in product(recorded(), ("answer", "request"))
        for nth in _ORDINALS.get(passed.name, (1,))
    ]
