"""A contract: shared values, a context's types, and whose connection it is."""

from rpc.reads import Reads
from storage.database import Connection
from tayho.kernel.ids import new_id
from tayho.transactions.types import Lane

__all__ = ["Connection", "Lane", "Reads", "new_id"]
