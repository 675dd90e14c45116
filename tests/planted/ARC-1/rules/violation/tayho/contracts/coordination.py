"""A contract that shows what lies behind the face."""

from nursery.signals import watch_signals  # breaks ARC-1
from tayho.coordination.store import rows  # breaks ARC-1

__all__ = ["rows", "watch_signals"]
