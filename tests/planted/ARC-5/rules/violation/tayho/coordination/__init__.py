"""A face with a body."""

from tayho.coordination.module import Coordination

__all__ = ["Coordination"]

LIMIT = 5  # breaks ARC-5


def start() -> None:  # breaks ARC-5
    Coordination()
