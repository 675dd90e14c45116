"""A host that sees faces and types only."""

from tayho.coordination import module
from tayho.coordination.module import Coordination
from tayho.transactions.types import Lane

__all__ = ["Coordination", "Lane", "module"]
