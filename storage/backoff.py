"""The wait before BullMQ's next attempt: its own formulas, with a bound that it lacks. Pure."""

from collections.abc import Mapping

# The type under which the bounded wait is known to BullMQ, beside its built-in "fixed" and "exponential". It is used
# in memory only: stored records carry BullMQ's own types, so that a Node worker can fail them too.
BOUNDED = "tayho-bounded"


def wait_milliseconds(backoff: Mapping[str, object], *, failures: int, milliseconds_max: int, chance: float) -> int:
    """How long to wait after the given number of failed attempts (at least 1).

    As in Node's backoffs.js: "exponential" doubles `delay` with each failure, anything else repeats it; `jitter` is
    the share of the wait that is random, 0 to 1. Python's bullmq 3.4 knows no jitter, and neither of them a bound.
    A backoff that another producer wrote wrongly counts as none: BullMQ raises there and leaves the record active.

    `chance` is the random draw, in [0, 1).
    """
    delay = _number(backoff.get("delay"))
    jitter = min(_number(backoff.get("jitter")), 1.0)
    if backoff.get("type") == "exponential":
        # The exponent is bounded because 2.0 ** 1100 raises OverflowError.
        delay *= 2.0 ** min(max(failures - 1, 0), 64)
    full = min(delay, float(milliseconds_max))
    return int(full * (1 - jitter) + full * jitter * chance)


def _number(value: object) -> float:
    """The value if it is a number above zero, else 0."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
        return 0.0
    try:
        return float(value)
    except OverflowError:
        return 0.0
