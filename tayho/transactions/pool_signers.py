"""Which signers this process may take nonces for: those that have a place in the pool, and whose keys are here."""

from __future__ import annotations

from collections.abc import Sequence

import structlog

from tayho.kernel.address import Address
from tayho.transactions.types import LaneStatus

log = structlog.get_logger("tayho.lanes")


class PoolSigners:
    """PostgreSQL says who is in the pool, the configuration whose keys are here; every allocation looks at both.

    So a signer that was given a place serves in every process that holds its key, without a restart, and one that has
    left, or whose key is elsewhere, is passed by.
    """

    def __init__(self, held: Sequence[Address]) -> None:
        self.held = frozenset(held)
        self._serving = tuple(sorted(self.held))
        self._seen: frozenset[Address] | None = None

    @property
    def serving(self) -> tuple[Address, ...]:
        """As of the last look, in the order of the lanes; all that are held where none has a place."""
        return self._serving

    def usable(self, lanes: Sequence[LaneStatus]) -> list[LaneStatus]:
        """Those lanes of the pool that this process can sign for; remembered."""
        found = [lane for lane in lanes if lane.signer in self.held]
        members = frozenset(lane.signer for lane in found)
        if members != self._seen:
            if self._seen is not None:
                log.info("pool_signers", serving=[str(signer) for signer in sorted(members)])
            self._seen = members
            self._serving = tuple(sorted(members or self.held))
        return found
