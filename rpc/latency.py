"""How long answers take: quantiles over the recent past, in a few hundred numbers whatever the traffic. Pure.

A histogram with buckets that widen by a seventh, so that a quantile is right to about that much, each sample of which
counts half as much after every half-life. Instead of shrinking old samples, new ones are weighed heavier ("forward
decay"), and the whole is scaled down before the weights leave the range of a float.
"""

from __future__ import annotations

import math
from typing import Final

SECONDS_MIN: Final = 1e-4
SECONDS_MAX: Final = 120.0
_RATIO: Final = 1.15
_BUCKETS: Final = math.ceil(math.log(SECONDS_MAX / SECONDS_MIN) / math.log(_RATIO)) + 1
_WEIGHT_MAX: Final = 2.0**60


class LatencyHistogram:
    """Durations of one method.

    A question that was given up counts as "at least so long" with `add` as well: its bucket is below the true one and
    above all that was quicker, so that the quantile it lies above does not sink for it.
    """

    def __init__(self, half_life_seconds: float = 60) -> None:
        self._half_life_seconds = half_life_seconds
        self._weights = [0.0] * _BUCKETS
        self._total = 0.0
        self._epoch: float | None = None

    def add(self, seconds: float, now: float) -> None:
        """Count one duration. What is no duration (negative, NaN) is left out."""
        if not seconds >= 0:
            return
        weight = self._weight(now)
        self._weights[_bucket_of(seconds)] += weight
        self._total += weight

    def samples(self, now: float) -> float:
        """How many recent samples there are, each at its present weight."""
        return self._total / self._weight(now)

    def quantile(self, share: float) -> float | None:
        """The duration that `share` of the samples (0 to 1) stay within; None without samples."""
        if self._total <= 0:
            return None
        wanted, seen = share * self._total, 0.0
        for number, weight in enumerate(self._weights):
            seen += weight
            if weight > 0 and seen >= wanted:
                return SECONDS_MIN * _RATIO**number
        return SECONDS_MAX

    def _weight(self, now: float) -> float:
        """The weight of a sample of now; those before weigh less beside it."""
        if self._epoch is None:
            self._epoch = now
        weight = 2.0 ** min(max((now - self._epoch) / self._half_life_seconds, 0.0), 1000.0)
        if weight > _WEIGHT_MAX:
            self._weights = [old / weight for old in self._weights]
            self._total = math.fsum(self._weights)
            self._epoch = now
            return 1.0
        return weight


def _bucket_of(seconds: float) -> int:
    """The first bucket whose upper edge is not below `seconds`."""
    if seconds <= SECONDS_MIN:
        return 0
    if seconds >= SECONDS_MAX:
        return _BUCKETS - 1
    return min(math.ceil(math.log(seconds / SECONDS_MIN) / math.log(_RATIO)), _BUCKETS - 1)
