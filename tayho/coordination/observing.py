"""Telling nobody: what coordination observes with where no metrics are kept."""

from tayho.coordination.types import Happening


def observe_nothing(_what: Happening, _label: str, _count: int) -> None:
    """Let it pass."""
