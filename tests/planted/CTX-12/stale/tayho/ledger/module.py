"""The ledger's face, which has learnt to close since its contract was made."""

from tayho.ledger.types import Entry


class Ledger:
    """A ledger."""

    async def add(self, entry: Entry, *, note: str | None = None) -> None:
        """Add one line."""

    async def close(self) -> None:
        """Add no more."""
