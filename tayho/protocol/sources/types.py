"""What a source tells."""

from __future__ import annotations

from attrs import frozen


@frozen
class Observation:
    """One number, in the contract's unit, and when it was seen: seconds since 1970 by the source's clock."""

    value: int
    observed_at: int


@frozen
class Posted:
    """The fact that was posted last, and how many epochs ago."""

    value: int
    epochs_ago: int
