"""How good an endpoint is at a method, from what was seen of it lately, and which to ask first (RPC-2). Pure.

    score = share of successes² · 0.1 s / (0.1 s + latency) · 1 / (1 + blocks behind / 4) · 1 / (1 + doubt)

Each factor lies in (0, 1]; none is ever NaN. Latency is that of successes, and of lost races as "at least": an
endpoint that fails quickly must not rank first for its speed, nor one that is always overtaken for its silence.
Doubt is what majorities and proofs said against it, whatever the method: half of it is forgotten in ten minutes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from attrs import define, field, frozen

LATENCY_SCALE_SECONDS = 0.1
LAG_SCALE_BLOCKS = 4
LAG_FREE_BLOCKS = 1
"""Endpoints hear of a block at different moments; one behind is no lag."""

STICKINESS = 1.25
"""How many times better another must be to take the first place: less is noise, and noise must not move traffic."""

_FAULT_HALF_LIFE_SECONDS = 20
_LATENCY_SHARE_OF_NEW = 0.15
# What a method that was hardly asked is presumed to be like: the endpoint as a whole, as so many samples.
_PRIOR_SAMPLES = 2.0
UNKNOWN_LATENCY_SECONDS = 0.05
LATENCY_SECONDS_MAX = 3_600


@define
class Track:
    """What was seen of one method at one endpoint, or of the endpoint as a whole."""

    _successes: float = field(default=0.0, init=False)
    _faults: float = field(default=0.0, init=False)
    _at: float = field(default=-math.inf, init=False)
    latency_seconds: float | None = field(default=None, init=False)

    def succeeded(self, seconds: float, now: float) -> None:
        """An answer that took `seconds`."""
        self._decay(now)
        self._successes += 1
        self._learn(seconds)

    def succeeded_untimed(self, now: float) -> None:
        """An answer whose time says nothing of one question, as that of a batch."""
        self._decay(now)
        self._successes += 1

    def failed(self, now: float) -> None:
        """A fault; how long it took says nothing."""
        self._decay(now)
        self._faults += 1

    def overtaken(self, seconds: float) -> None:
        """No answer yet after `seconds`, when another endpoint had one: it takes at least so long."""
        if self.latency_seconds is None or seconds > self.latency_seconds:
            self._learn(seconds)

    def success_share(self, now: float, prior: float = 1.0) -> float:
        """The recent share of successes, in (0, 1]."""
        self._decay(now)
        whole = self._successes + self._faults + _PRIOR_SAMPLES
        return max((self._successes + _PRIOR_SAMPLES * prior) / whole, 1e-3)

    def _learn(self, seconds: float) -> None:
        if not 0 <= seconds < math.inf:
            return
        # Past this slow is slow: a score must not vanish, or no two of them could be compared.
        seconds = min(seconds, LATENCY_SECONDS_MAX)
        known = self.latency_seconds
        self.latency_seconds = seconds if known is None else known + _LATENCY_SHARE_OF_NEW * (seconds - known)

    def _decay(self, now: float) -> None:
        elapsed = now - self._at
        if elapsed > 0:
            shrink = 0.5 ** (elapsed / _FAULT_HALF_LIFE_SECONDS)
            self._successes *= shrink
            self._faults *= shrink
            self._at = now


DISSENT_DOUBT = 1.0
LIE_DOUBT = 10.0
"""A majority may be wrong about one honest endpoint. A proof is not."""

_DOUBT_MAX = 100.0
_DOUBT_HALF_LIFE_SECONDS = 600


@define
class Doubt:
    """How much was said against an endpoint lately."""

    _weight: float = field(default=0.0, init=False)
    _at: float = field(default=-math.inf, init=False)

    def add(self, weight: float, now: float) -> None:
        """Something more was."""
        self._weight = min(self.at(now) + weight, _DOUBT_MAX)
        self._at = max(now, self._at)

    def at(self, now: float) -> float:
        """What is left of it, from 0 on."""
        return self._weight * 0.5 ** (max(now - self._at, 0.0) / _DOUBT_HALF_LIFE_SECONDS) if self._weight else 0.0


@define
class Health:
    """One endpoint."""

    whole: Track = field(factory=Track, init=False)
    methods: dict[str, Track] = field(factory=dict[str, Track], init=False)
    head: int | None = field(default=None, init=False)
    doubt: Doubt = field(factory=Doubt, init=False)

    def method(self, method: str) -> Track:
        """The track of a method. Bounded: callers ask with the names of methods that exist."""
        return self.methods.setdefault(method, Track())

    def succeeded(self, method: str, seconds: float, now: float) -> None:
        self.whole.succeeded(seconds, now)
        self.method(method).succeeded(seconds, now)

    def failed(self, method: str, now: float) -> None:
        self.whole.failed(now)
        self.method(method).failed(now)

    def overtaken(self, method: str, seconds: float) -> None:
        self.whole.overtaken(seconds)
        self.method(method).overtaken(seconds)

    def latency_seconds(self, method: str) -> float | None:
        """Of the method, or of the endpoint as a whole while the method was not answered; None before any answer."""
        track = self.methods.get(method)
        known = None if track is None else track.latency_seconds
        return self.whole.latency_seconds if known is None else known

    def score(
        self, method: str, lag_blocks: int, now: float, presumed_seconds: float = UNKNOWN_LATENCY_SECONDS
    ) -> float:
        """In (0, 1]; higher is better. `presumed_seconds`: the latency of an endpoint that never answered."""
        track = self.methods.get(method)
        share = self.whole.success_share(now)
        if track is not None:
            share = track.success_share(now, prior=share)
        latency = self.latency_seconds(method)
        seconds = presumed_seconds if latency is None else latency
        speed = LATENCY_SCALE_SECONDS / (LATENCY_SCALE_SECONDS + seconds)
        behind = max(lag_blocks - LAG_FREE_BLOCKS, 0)
        return share * share * speed / (1 + behind / LAG_SCALE_BLOCKS) / (1 + self.doubt.at(now))


def lags_of(heads: Sequence[int | None]) -> list[int]:
    """How many blocks each endpoint is off the head that a majority of those heard have reached.

    Off, not behind: one that claims a head far above all others is no better than one far below. One step above is
    merely the first to hear. An endpoint not heard of has no lag: its faults speak for it.
    """
    known = sorted((head for head in heads if head is not None), reverse=True)
    if not known:
        return [0 for _ in heads]
    reached = known[(len(known) - 1) // 2]
    return [0 if head is None else max(reached - head, head - reached - _AHEAD_BLOCKS_MAX, 0) for head in heads]


_AHEAD_BLOCKS_MAX = 16


@frozen
class Ranked:
    """One endpoint that may be asked."""

    place: int
    score: float


class Preference:
    """Which endpoint is asked first, by method. Whoever is first stays it until another is clearly better."""

    def __init__(self) -> None:
        self._first: dict[str, int] = {}

    def order(self, method: str, candidates: Sequence[Ranked]) -> list[int]:
        """The places of the candidates, best first; of equals the one configured first."""
        ranked = sorted(candidates, key=lambda one: (-one.score, one.place))
        if not ranked:
            return []
        incumbent = next((one for one in ranked if one.place == self._first.get(method)), None)
        if incumbent is None or ranked[0].score > STICKINESS * incumbent.score:
            incumbent = ranked[0]
        self._first[method] = incumbent.place
        return [incumbent.place, *(one.place for one in ranked if one.place != incumbent.place)]
