"""Internal to coordination."""

from storage.database import Connection
from tayho.kernel.ids import new_id

__all__ = ["Connection", "new_id"]
