"""Telling nobody: what the engine observes with where no metrics are kept."""

from tayho.transactions.types import Happening, Stage


def observe_nothing(_what: Happening, _label: str, _count: int) -> None:
    """Let it pass."""


def observe_no_seconds(_stage: Stage, _seconds: float) -> None:
    """Let it pass."""
