"""What is believed of a source. Pure."""

from __future__ import annotations

from tayho.kernel.markets import Bounds
from tayho.protocol.sources.errors import ValueAbsurd, ValueAhead, ValueJumped, ValueStale
from tayho.protocol.sources.types import Observation, Posted


def refuse_unbelievable(observed: Observation, bounds: Bounds, now: int, last: Posted | None = None) -> None:
    """Refuse an observation that is out of its time or its bounds; `now` is the chain's clock.

    A step is measured from what was posted last, so that every replica measures alike, and a value that was refused
    moves nothing. Raises ValueStale, ValueAhead, ValueAbsurd, ValueJumped.
    """
    age = now - observed.observed_at
    if age > bounds.age_seconds_max:
        raise ValueStale(f"observed {age} s ago; believed for {bounds.age_seconds_max} s")
    if age < -bounds.ahead_seconds_max:
        raise ValueAhead(f"observed {-age} s after the chain's head; at most {bounds.ahead_seconds_max} s are believed")
    if not bounds.minimum <= observed.value <= bounds.maximum:
        raise ValueAbsurd(f"the value is {_shown(observed.value)}; believed from {bounds.minimum} to {bounds.maximum}")
    if last is None or bounds.change_max is None:
        return
    change = abs(observed.value - last.value)
    allowed = bounds.change_max * last.epochs_ago
    if change > allowed:
        raise ValueJumped(
            f"the value is {observed.value}, {change} from the {last.value} of {last.epochs_ago} epochs ago; "
            f"believed up to {allowed}"
        )


def _shown(value: int) -> str:
    """The value, unless it is so long that nobody would read it."""
    digits = value.bit_length() * 3 // 10
    return str(value) if digits < 80 else f"a number of about {digits} digits"
