"""A face that shows an internal type."""

from tayho.ledger.store import Row


class Ledger:
    """A ledger."""

    async def rows(self) -> list[Row]:
        """Every row."""
        return []
