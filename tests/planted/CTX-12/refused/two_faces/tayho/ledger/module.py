"""Two faces."""


class Ledger:
    """A ledger."""


class Book:
    """Another."""
