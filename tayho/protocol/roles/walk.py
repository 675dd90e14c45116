"""Which of the things that a contract numbers 1, 2, 3 … to look at next: the new ones and the due ones. Pure.

Most of a long list is closed for good, so that nothing of it is read twice. What the walk remembers is only where it is
and what it found open; after a restart it begins at 1.
"""

from __future__ import annotations

from bisect import bisect_right

from attrs import define, field

PAGE = 200
# Beyond so many open ones the walk waits for some to close.
OPEN_MAX = 100_000
# A reorganisation may open again what a block closed: it is looked at once more when that block is final.
CLOSED_AGAIN_SECONDS = 1_800


@define
class _Waiting:
    due_at: int
    is_closed: bool = False


@define
class Walk:
    """One list. Ask `page`, read those, and `tell` what each was."""

    _count: int = 0
    # Every number up to here was read once.
    _walked: int = 0
    _waiting: dict[int, _Waiting] = field(factory=dict[int, _Waiting])
    # The due ones are taken in turn: those that stay due must not hide those behind them.
    _turn: int = 0
    is_more: bool = field(default=False, init=False)

    def page(self, count: int, now: int) -> list[int]:
        """The numbers to read of a list that has `count` by now; `is_more` tells whether to ask again at once."""
        self._forget_beyond(count)
        due = sorted(number for number, one in self._waiting.items() if one.due_at <= now)
        behind = bisect_right(due, self._turn)
        taken = due[behind:][: PAGE // 2]
        room = min(PAGE - len(taken), OPEN_MAX - len(self._waiting))
        fresh = list(range(self._walked + 1, min(count, self._walked + max(room, 0)) + 1))
        if fresh:
            self._walked = fresh[-1]
        has_all_due = behind + len(taken) == len(due)
        self._turn = 0 if has_all_due else taken[-1]
        has_all_fresh = self._walked == count or len(self._waiting) >= OPEN_MAX
        self.is_more = not (has_all_due and has_all_fresh)
        return taken + fresh

    def tell(self, number: int, due_at: int | None, now: int) -> None:
        """What a number was found to be: open and due at a time, or closed."""
        if due_at is not None:
            self._waiting[number] = _Waiting(due_at)
            return
        known = self._waiting.pop(number, None)
        if known is not None and not known.is_closed:
            self._waiting[number] = _Waiting(now + CLOSED_AGAIN_SECONDS, is_closed=True)

    def _forget_beyond(self, count: int) -> None:
        """A list that has become shorter was another chain's, or a block's that is gone."""
        if count < self._count:
            self._walked = min(self._walked, count)
            self._waiting = {number: one for number, one in self._waiting.items() if number <= count}
        self._count = count
