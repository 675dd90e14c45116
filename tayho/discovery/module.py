"""The face of discovery."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from nursery.drain import Drain
from rpc.reads import Reads
from storage.database import Database
from tayho.contracts.coordination import Coordination
from tayho.discovery.findings import FindingReader
from tayho.discovery.recording import Recorder
from tayho.discovery.scanner import Scanner, scan
from tayho.discovery.types import ObserveScan
from tayho.kinds import DiscoveringKind

__all__ = ["Discovery", "FindingReader"]


class Discovery:
    """The scanners of one process, for one (chain, environment). Any number may run: PostgreSQL deduplicates."""

    def __init__(
        self,
        database: Database,
        coordination: Coordination,
        chain_id: int,
        environment: str,
        instance_id: str,
        reads: Callable[[], Awaitable[Reads]],
        observe: ObserveScan,
    ) -> None:
        """`reads` gives reads at a head that is agreed at that moment."""
        self._recorder = Recorder(database, coordination, chain_id, environment, instance_id)
        self._reads = reads
        self._observe = observe

    async def scan(self, kinds: Sequence[DiscoveringKind], scan_seconds: float, drain: Drain) -> None:
        """Look for the kinds' work until the drain is requested. Whatever a kind does, the process lives on."""
        scanners = [Scanner(kind, self._recorder, self._reads, self._observe) for kind in kinds]
        await scan(scanners, scan_seconds, drain)
