"""Room for handlers: what is fetched can be run, and no more is fetched."""

from __future__ import annotations

import trio


class Slots:
    """So many handlers at once. Whoever takes a slot gives it back, or hands it on with the work."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._free = total
        self._waiters = trio.lowlevel.ParkingLot()

    @property
    def are_free(self) -> bool:
        """Whether nobody has any."""
        return self._free == self._total

    async def take(self, count_max: int) -> int:
        """Wait until a slot is free, then take as many as are, up to `count_max`."""
        await trio.lowlevel.checkpoint_if_cancelled()
        while not self._free:
            await self._waiters.park()
        taken = min(self._free, count_max)
        self._free -= taken
        if self._free:
            self._waiters.unpark()
        return taken

    def give_back(self, count: int = 1) -> None:
        """Let others have them."""
        if count:
            self._free += count
            self._waiters.unpark()
