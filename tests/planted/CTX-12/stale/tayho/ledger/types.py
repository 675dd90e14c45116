"""What the ledger shows."""

from attrs import frozen


@frozen
class Entry:
    """One line."""

    amount_wei: int
