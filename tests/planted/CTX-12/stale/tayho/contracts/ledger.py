"""What ledger shows the other contexts.

Generated from tayho/ledger/module.py by `make contracts`; a stale copy fails the build.
"""

from __future__ import annotations

from typing import Protocol

from tayho.ledger.types import Entry

__all__ = ["Entry", "Ledger"]


class Ledger(Protocol):
    """A ledger."""

    async def add(self, entry: Entry, *, note: str | None = None) -> None:
        """Add one line."""
        ...
