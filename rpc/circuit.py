"""When an endpoint is left alone, and when it is tried again (RPC-4). Pure: the time is told, nothing is asked.

One circuit stands for one endpoint and one class of methods: an endpoint whose logs time out still answers heads.

    closed ──faults──▶ open ──cooldown──▶ half-open ──its one probe answers──▶ closed
                        ▲                     └────── it fails ──────┐
                        └─────────────────────────────────────────────┘

What opens it is told to it as a `Fault`; what is no fault of the endpoint's (a revert, the caller's own mistake, a
null, a cancelled question, a lost race) is never told as one.
"""

from __future__ import annotations

from collections import deque
from typing import Literal, TypeAlias

from attrs import define, field, frozen

from rpc.retry_after import RETRY_AFTER_SECONDS_MAX

State: TypeAlias = Literal["closed", "open", "half-open"]

_BUCKETS = 10


@frozen
class CircuitRules:
    """When to open, and for how long.

    Of the answers within `window_seconds` at least `samples_min` must be faults, and either that many came in a row or
    they are `fault_share` of all. The row is for a busy endpoint that dies: its good past would hide it for a while.
    """

    cooldown_seconds: float
    window_seconds: float = 30
    samples_min: int = 4
    fault_share: float = 0.5

    def __attrs_post_init__(self) -> None:
        if not (self.cooldown_seconds > 0 and self.window_seconds > 0 and self.samples_min >= 1):
            raise ValueError(f"cooldown, window and samples must be positive: {self}")


@frozen
class Fault:
    """One fault of the endpoint.

    `opens_at_once`: it decides alone, as a wrong chain does and a 429. `pause_seconds`: how long the endpoint asked to
    be left alone; None leaves it to the cooldown, and 0 takes the endpoint at its word that it may be asked at once.
    """

    cause: str
    opens_at_once: bool = False
    pause_seconds: float | None = None

    @property
    def is_welcome_back(self) -> bool:
        return self.pause_seconds is not None and self.pause_seconds <= 0


@frozen
class Pass:
    """Leave to ask once. `is_probe` where everything hangs on the answer."""

    generation: int
    is_probe: bool = False


@define
class _Bucket:
    number: int
    answers: int = 0
    faults: int = 0


@define
class Circuit:
    """One endpoint, one class of methods.

    Invariant: a generation is one stay in a state. An answer changes nothing unless its pass is of the present one, so
    that a slow answer from before the opening neither closes nor reopens.
    """

    rules: CircuitRules
    _generation: int = field(default=0, init=False)
    _open_until: float | None = field(default=None, init=False)
    _cause: str = field(default="", init=False)
    _is_probed: bool = field(default=False, init=False)
    _buckets: deque[_Bucket] = field(factory=deque[_Bucket], init=False)
    _faults_in_row: int = field(default=0, init=False)
    _last_fault_at: float = field(default=float("-inf"), init=False)

    @property
    def cause(self) -> str:
        """What opened it last; empty if nothing ever did."""
        return self._cause

    def state(self, now: float) -> State:
        """Where it stands."""
        if self._open_until is None:
            return "closed"
        return "open" if now < self._open_until else "half-open"

    def seconds_left(self, now: float) -> float:
        """How long nobody is let through."""
        return 0.0 if self._open_until is None else max(self._open_until - now, 0.0)

    def wants_probe(self, now: float) -> bool:
        """Whether the next pass is the probe."""
        return self.state(now) == "half-open" and not self._is_probed

    def enter(self, now: float) -> Pass | None:
        """Leave to ask now, or None. Each pass is given back once: answered, failed or released."""
        if self._open_until is None:
            return Pass(self._generation)
        if not self.wants_probe(now):
            return None
        self._is_probed = True
        return Pass(self._generation, is_probe=True)

    def answered(self, leave: Pass, now: float) -> None:
        """The endpoint did its work, whatever it said."""
        if leave.generation != self._generation:
            return
        if leave.is_probe:
            self._begin(None)
            return
        self._faults_in_row = 0
        self._bucket(now).answers += 1

    def released(self, leave: Pass) -> None:
        """The question ended without telling anything: cancelled, or failed by our own doing."""
        if leave.is_probe and leave.generation == self._generation:
            self._is_probed = False

    def failed(self, leave: Pass, fault: Fault, now: float, *, is_last_live: bool = False) -> None:
        """The endpoint failed. The last live one is never left alone: a bad endpoint is more than none."""
        if leave.generation != self._generation:
            return
        if leave.is_probe:
            self._open(fault, now)
            return
        self._count(now)
        if not is_last_live and (self._is_due(now) or (fault.opens_at_once and not fault.is_welcome_back)):
            self._open(fault, now)

    def force_open(self, fault: Fault, now: float) -> None:
        """Open for a fault that was seen in another class of methods and says everything about this one too."""
        if self._open_until is None:
            self._open(fault, now)

    def _open(self, fault: Fault, now: float) -> None:
        self._cause = fault.cause
        asked = fault.pause_seconds
        # A NaN is no wish: it compares false with everything, and a circuit open until NaN would never let anyone in.
        if asked is None or not asked > 0:
            self._begin(now + self.rules.cooldown_seconds)
        else:
            self._begin(now + min(asked, RETRY_AFTER_SECONDS_MAX))

    def _begin(self, open_until: float | None) -> None:
        self._generation += 1
        self._open_until = open_until
        self._is_probed = False
        self._buckets.clear()
        self._faults_in_row = 0

    def _count(self, now: float) -> None:
        if now - self._last_fault_at > self.rules.window_seconds:
            self._faults_in_row = 0
        self._last_fault_at = now
        self._faults_in_row += 1
        self._bucket(now).faults += 1

    def _is_due(self, now: float) -> bool:
        self._forget(now)
        faults = sum(bucket.faults for bucket in self._buckets)
        answers = sum(bucket.answers for bucket in self._buckets)
        if faults < self.rules.samples_min:
            return False
        return self._faults_in_row >= self.rules.samples_min or faults >= self.rules.fault_share * (faults + answers)

    def _bucket(self, now: float) -> _Bucket:
        number = int(now * _BUCKETS / self.rules.window_seconds)
        if not self._buckets or self._buckets[-1].number != number:
            self._buckets.append(_Bucket(number))
            self._forget(now)
        return self._buckets[-1]

    def _forget(self, now: float) -> None:
        oldest = int(now * _BUCKETS / self.rules.window_seconds) - _BUCKETS
        while self._buckets and self._buckets[0].number <= oldest:
            self._buckets.popleft()
