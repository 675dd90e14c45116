"""A face that re-exports."""

from tayho.coordination.module import Coordination

__all__ = ["Coordination"]
