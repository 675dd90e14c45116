"""A piece of the chain, each header naming the one below as its parent. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from attrs import field, frozen

from rpc.values import Header


def reached_by(needed: int, configured: int, heights: Sequence[int]) -> int | None:
    """The highest height that `needed` voters have reached, of those `configured`; None where too few told one.

    Zero is a node that has not begun, unless every voter says so: then the chain itself is new. So few as `needed`
    less than all may lie, and one of the highest `needed` is honest: nobody is believed beyond an honest head.
    """
    if len(heights) == configured and not any(heights):
        return 0
    told = sorted((height for height in heights if height > 0), reverse=True)
    return told[needed - 1] if len(told) >= needed else None


@frozen
class Reorganised:
    """From `height` on the chain is another than it was. `new_hash` is None where no majority has agreed there yet."""

    height: int
    old_hash: bytes = field(repr=bytes.hex)
    new_hash: bytes | None


class Segment:
    """Linked headers from `lowest` to `top`, at most `blocks_max` of them, the lowest forgotten first.

    Invariant: `self[n].parent_hash == self[n - 1].hash` for every two that are there, and there is no gap.
    """

    def __init__(self, start: Header, blocks_max: int) -> None:
        self._headers = {start.number: start}
        self._blocks_max = blocks_max
        self.lowest = start.number
        self.top = start

    def at(self, height: int) -> Header | None:
        """The header at a height, where the piece covers it."""
        return self._headers.get(height)

    def grow(self, agreed: Mapping[int, Header]) -> None:
        """Take what follows the top, as far as it links to it."""
        while (above := agreed.get(self.top.number + 1)) is not None and above.parent_hash == self.top.hash:
            self._headers[above.number] = self.top = above
        while len(self._headers) > self._blocks_max:
            del self._headers[self.lowest]
            self.lowest += 1

    def deepen(self, agreed: Mapping[int, Header]) -> None:
        """Take what is below the lowest, along the parent hashes, as far as there is room."""
        while len(self._headers) < self._blocks_max:
            below = agreed.get(self.lowest - 1)
            if below is None or below.hash != self._headers[self.lowest].parent_hash:
                return
            self._headers[below.number] = below
            self.lowest = below.number

    def fork(self, agreed: Mapping[int, Header]) -> int | None:
        """The highest height where both are the same block; None where there is none."""
        same = (height for height, header in self._headers.items() if agreed.get(height) == header)
        return max(same, default=None)

    def cut(self, height: int) -> None:
        """Forget everything above a height that is there."""
        for above in range(height + 1, self.top.number + 1):
            del self._headers[above]
        self.top = self._headers[height]
