"""When a second endpoint may be asked while the first still works (RPC-3). Pure."""

from __future__ import annotations

from collections import defaultdict
from typing import Final

from attrs import Factory, define, field, frozen

from rpc.latency import LatencyHistogram

_QUANTILE: Final = 0.95
_MEDIANS_MAX: Final = 8
_SAMPLES_MIN: Final = 20
_HELD_SECONDS: Final = 0.1


@frozen
class HedgeRules:
    """How early a hedge may go, and how many.

    `extra_share`: hedges per ordinary request in the long run. `burst_max`: hedges that a quiet time saves up, which is
    also what there is at the start, when nothing is known of anybody yet.
    """

    seconds_min: float = 0.02
    seconds_max: float = 2.0
    seconds_cold: float = 0.15
    extra_share: float = 0.1
    burst_max: float = 20
    pause_seconds: float = 1.0

    def __attrs_post_init__(self) -> None:
        if not 0 <= self.seconds_min <= self.seconds_cold <= self.seconds_max:
            raise ValueError(f"hedge delays must rise from least over cold to most: {self}")
        if not (0 <= self.extra_share <= 1 and self.burst_max >= 0):
            raise ValueError(f"the hedge budget is a share of the requests: {self}")


class HedgeDelays:
    """The recent p95 of each method over the whole pool, so that one slow endpoint does not set its own standard.

    It never exceeds eight medians. Where one request in twenty is slow, the p95 is either side of the slow ones by
    chance, and once it is theirs nothing is hedged any more; the median is not theirs until the day is slow for all.
    """

    def __init__(self, rules: HedgeRules) -> None:
        self._rules = rules
        self._methods: dict[str, LatencyHistogram] = defaultdict(LatencyHistogram)
        # Until when a delay holds: a quantile costs more than all else that a question needs of us.
        self._held: dict[str, tuple[float, float]] = {}

    def note(self, method: str, seconds: float, now: float) -> None:
        """An answer, or a lost race as "at least"."""
        self._methods[method].add(seconds, now)

    def seconds(self, method: str, now: float) -> float:
        """How long to wait for the first endpoint."""
        held_until, held = self._held.get(method, (now, 0.0))
        if now < held_until:
            return held
        found = self._found(method, now)
        self._held[method] = (now + _HELD_SECONDS, found)
        return found

    def _found(self, method: str, now: float) -> float:
        rules = self._rules
        seen = self._methods.get(method)
        if seen is None or seen.samples(now) < _SAMPLES_MIN:
            return rules.seconds_cold
        tail, median = seen.quantile(_QUANTILE), seen.quantile(0.5)
        if tail is None or median is None:
            return rules.seconds_cold
        return min(max(min(tail, _MEDIANS_MAX * median), rules.seconds_min), rules.seconds_max)

    def quantile(self, method: str, share: float) -> float | None:
        """For people: a quantile of the recent durations in seconds."""
        seen = self._methods.get(method)
        return None if seen is None else seen.quantile(share)


@define
class HedgeBudget:
    """Tokens: each request sent adds a part of one, each hedge sent takes one.

    Counted when they are sent. Counted when they end, a stall would spend the budget of the requests it holds up.
    """

    rules: HedgeRules
    fired: int = field(default=0, init=False)
    withheld: int = field(default=0, init=False)
    _tokens: float = field(init=False, default=Factory(lambda budget: budget.rules.burst_max, takes_self=True))
    _paused_until: float = field(default=float("-inf"), init=False)

    def sent(self) -> None:
        """An ordinary request goes out."""
        self._tokens = min(self._tokens + self.rules.extra_share, self.rules.burst_max)

    def pushed_back(self, now: float) -> None:
        """Some endpoint asked for fewer requests."""
        self._paused_until = now + self.rules.pause_seconds

    def take(self, now: float, *, is_strained: bool) -> bool:
        """Whether a hedge may go now. `is_strained`: an open circuit leaves its load to the others."""
        if is_strained or now < self._paused_until or self._tokens < 1:
            self.withheld += 1
            return False
        self._tokens -= 1
        self.fired += 1
        return True
