"""The lock tokens of fetches whose replies were lost. Pure: the caller has the clock and does the looking."""

from collections.abc import Collection, Iterable, Mapping
from typing import Final

# A fetch whose connection broke may still lie in a socket buffer, and be executed after the first look.
LOOK_AGAIN_SECONDS: Final = 1.0


class UnansweredFetches:
    """Tokens under which Redis may have locked records for us without our knowing.

    Invariant: a token is in here or in the hands of one looker, never both: two lookers would hand out one delivery
    twice.
    """

    def __init__(self, *, remember_seconds: float) -> None:
        """`remember_seconds`: how long a lock lasts; after it a token is void and the stalled scan has the record."""
        self._remember_seconds = remember_seconds
        self._forget_at: dict[str, float] = {}
        self._look_at = float("-inf")

    def __len__(self) -> int:
        return len(self._forget_at)

    def add(self, tokens: Iterable[str], *, now: float) -> None:
        """These were sent and not answered. The next look is due at once."""
        self._forget_at.update((token, now + self._remember_seconds) for token in tokens)
        self._look_at = now

    def take_due(self, *, now: float) -> Mapping[str, float]:
        """The tokens to look for now, taken out, each with its time to be forgotten; empty if no look is due."""
        if not self._forget_at or now < self._look_at:
            return {}
        taken = {token: forget_at for token, forget_at in self._forget_at.items() if forget_at > now}
        self._forget_at.clear()
        return taken

    def give_back(self, taken: Mapping[str, float], *, found: Collection[str], now: float) -> None:
        """A look was had: what it did not find is looked for again, a little later."""
        self._forget_at.update((token, forget_at) for token, forget_at in taken.items() if token not in found)
        self._look_at = now + LOOK_AGAIN_SECONDS

    def restore(self, taken: Mapping[str, float]) -> None:
        """The look failed: all is as before it, and due at once."""
        self._forget_at.update(taken)
