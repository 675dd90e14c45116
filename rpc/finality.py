"""The blocks that decisions rest on for good, and which of them the chain must be held against. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import field, frozen

from rpc.errors import FinalityViolated
from rpc.values import Header, shown_hex


@frozen
class FinalBlock:
    """A block that may not change any more."""

    number: int
    hash: bytes = field(repr=shown_hex)


class Finality:
    """The highest block declared final, and all that are in doubt until the chain has shown them again.

    Invariant: once `violation` is there it stays: what was final cannot become true again by another look.
    """

    def __init__(self, voters: Sequence[str]) -> None:
        self._voters = voters
        self._highest: FinalBlock | None = None
        self._in_doubt: set[FinalBlock] = set()
        self.violation: FinalityViolated | None = None

    def raise_violation(self) -> None:
        """Raise it where there is one."""
        if self.violation is not None:
            raise self.violation

    def declare(self, block: FinalBlock) -> None:
        """A block that is in the chain as it is now known. Only the highest is kept: those below follow from it."""
        if self._highest is None or block.number > self._highest.number:
            self._highest = block

    def suspect(self, block: FinalBlock) -> None:
        """A block declared final elsewhere, that has yet to be found in the chain."""
        self._in_doubt.add(block)

    def reorganised(self) -> None:
        """The chain has changed, perhaps through what is final."""
        if self._highest is not None:
            self._in_doubt.add(self._highest)

    def doubted(self, height: int) -> list[FinalBlock]:
        """What can be compared now: all in doubt that is not above the height."""
        return [block for block in self._in_doubt if block.number <= height]

    def compare(self, block: FinalBlock, now: Header) -> None:
        """What the chain has in the place of a block in doubt. Raises FinalityViolated where it is another."""
        if now.hash != block.hash:
            self.violation = FinalityViolated(block.number, block.hash, now.hash, self._voters)
            raise self.violation
        self._in_doubt.discard(block)
        self.declare(block)
