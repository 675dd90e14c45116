"""What discovery shows to others."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from enum import Enum
from typing import TypeAlias

from attrs import frozen


@frozen
class FindingRecord:
    """A finding as it is kept."""

    kind: str
    subject: str
    name: str
    detail: str
    found_by: str
    found_at: datetime


class Scanned(Enum):
    """What a scanner counts of a kind."""

    LOOKED = "looked"  # looks that came to their end
    NEW = "new"  # work that nobody had found before
    KNOWN = "known"  # work that has its job
    AGAIN = "again"  # work whose last job found nothing to do, and that got another
    WAITING = "waiting"  # the same, too soon after the last
    DEAD = "dead"  # work whose job ended dead: an operator's
    FINDING = "finding"
    FAILED = "failed"  # looks that raised
    LATE = "late"  # looks that were cut off


# Called with the kind, what happened, and how often.
ObserveScan: TypeAlias = Callable[[str, Scanned, int], None]
