"""Another context, which reaches past the contract."""

from tayho.coordination.store import rows  # breaks ARC-1
from tayho.coordination.types import Job  # breaks ARC-1

__all__ = ["Job", "rows"]
