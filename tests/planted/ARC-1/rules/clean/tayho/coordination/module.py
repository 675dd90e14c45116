"""A context that uses its own rooms and another's contract."""

from tayho.contracts.transactions import Transactions
from tayho.coordination.store import rows

__all__ = ["Transactions", "rows"]
