"""A face that shows a type declared beside it."""


class _Row:
    """A row."""


class Ledger:
    """A ledger."""

    async def rows(self) -> list[_Row]:
        """Every row."""
        return []
