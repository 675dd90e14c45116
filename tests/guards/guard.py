"""What a guard is."""

from __future__ import annotations

from attrs import frozen


@frozen
class Guard:
    """One guard. `text` stands exactly once in `file`, and `without` is put there instead."""

    name: str
    file: str
    text: str
    without: str
    # A test of the suite, as pytest names it.
    test: str
