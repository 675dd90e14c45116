"""The lock tokens of fetches whose replies were lost. Pure: the caller has the clock and does the looking."""

from collections.abc import Collection, Iterable, Mapping
from typing import Final

from attrs import frozen

# A fetch whose connection broke may still lie in a socket buffer, and be executed after the first look.
LOOK_AGAIN_SECONDS: Final = 1.0


@frozen
class LostToken:
    """When to look for what one token locked, and when to stop."""

    look_at: float
    forget_at: float


class UnansweredFetches:
    """Tokens under which Redis may have locked records for us without our knowing.

    Invariant: a token is in here or in the hands of one looker, never both: two lookers would hand out one delivery
    twice.
    """

    def __init__(self, *, remember_seconds: float) -> None:
        """`remember_seconds`: how long a lock lasts; after it a token is void and the stalled scan has the record."""
        self._remember_seconds = remember_seconds
        self._lost: dict[str, LostToken] = {}

    def __len__(self) -> int:
        return len(self._lost)

    def add(self, tokens: Iterable[str], *, now: float) -> None:
        """These were sent and not answered. A look for them is due at once."""
        self._lost.update((token, LostToken(now, now + self._remember_seconds)) for token in tokens)

    def take_due(self, count: int, *, now: float) -> Mapping[str, LostToken]:
        """Up to `count` tokens to look for now, taken out; each may have locked one record."""
        self._lost = {token: lost for token, lost in self._lost.items() if lost.forget_at > now}
        due = [token for token, lost in self._lost.items() if lost.look_at <= now]
        return {token: self._lost.pop(token) for token in due[:count]}

    def give_back(self, taken: Mapping[str, LostToken], *, found: Collection[str], now: float) -> None:
        """A look was had: what it did not find is looked for again, a little later."""
        again_at = now + LOOK_AGAIN_SECONDS
        unfound = {token: LostToken(again_at, lost.forget_at) for token, lost in taken.items() if token not in found}
        self._lost.update(unfound)

    def restore(self, taken: Mapping[str, LostToken]) -> None:
        """The look failed: all is as before it."""
        self._lost.update(taken)
