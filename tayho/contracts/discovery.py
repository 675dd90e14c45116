"""What discovery shows the other contexts.

Generated from tayho/discovery/module.py by `make contracts`; a stale copy fails the build.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from nursery.drain import Drain
from tayho.discovery.types import FindingRecord, ObserveScan, Scanned
from tayho.kinds import DiscoveringKind

__all__ = ["Discovery", "FindingRecord", "ObserveScan", "Scanned"]


class Discovery(Protocol):
    """The scanners of one process, for one (chain, environment). Any number may run: PostgreSQL deduplicates."""

    async def scan(self, kinds: Sequence[DiscoveringKind], scan_seconds: float, drain: Drain) -> None:
        """Look for the kinds' work until the drain is requested. Whatever a kind does, the process lives on."""
        ...
