"""From where on a publisher looks for due rows, so that what it has seen to be gone is not read again each time."""

from __future__ import annotations

from datetime import datetime, timedelta

from attrs import define

# Transactions may commit a row this long after its due time and still be seen by the next look.
MARGIN = timedelta(seconds=2)
# The whole index is looked at again after this, or longer where that look is dear: it takes this share of the time.
BEHIND_SECONDS = 1.0
BEHIND_SHARE = 0.02
# A row that was committed behind the frontier is found within this, whatever the look costs.
BEHIND_SECONDS_MAX = 30.0


@define
class Frontier:
    """The due time before which the last look found nothing. Held in memory: to lose it costs one look at the whole.

    All times are PostgreSQL's, and it may lie in the future only if that clock went back: the next look mends it.
    """

    _seen_to: datetime | None = None
    _is_whole_wanted: bool = False

    def begin(self) -> datetime | None:
        """Where the look that is made now begins; None is the beginning of the index."""
        begins_at = self._begins_at
        self._is_whole_wanted = False
        return begins_at

    def move(self, seen_to: datetime) -> None:
        """Nothing due is left before this time, as far as a look that began with `begin` could see."""
        self._seen_to = seen_to

    def look_at_the_whole(self) -> None:
        """The next look begins at the beginning, also where one is being made now."""
        self._is_whole_wanted = True

    def is_ahead_of(self, due_from: datetime | None) -> bool:
        """Whether the next look would miss a row that is due from this time on."""
        begins_at = self._begins_at
        return due_from is not None and begins_at is not None and due_from < begins_at

    @property
    def _begins_at(self) -> datetime | None:
        return None if self._seen_to is None or self._is_whole_wanted else self._seen_to - MARGIN


def pause_seconds(look_seconds: float) -> float:
    """How long to leave the whole index alone after a look that took so long."""
    return min(max(look_seconds / BEHIND_SHARE, BEHIND_SECONDS), BEHIND_SECONDS_MAX)
