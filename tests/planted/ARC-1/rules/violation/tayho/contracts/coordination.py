"""A contract that shows what lies behind the face."""

from nursery.drain import Drain  # breaks ARC-1
from tayho.coordination.store import rows  # breaks ARC-1

__all__ = ["Drain", "rows"]
