"""Internal to the ledger."""


class Row:
    """A row."""
