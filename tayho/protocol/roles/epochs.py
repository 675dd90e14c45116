"""Epochs: equal spans of the chain's time, counted from 1970-01-01T00:00:00Z. Pure."""

from __future__ import annotations


def epoch_at(now: int, epoch_seconds: int) -> int:
    """The epoch that a second lies in."""
    return now // epoch_seconds


def ended_epoch(now: int, epoch_seconds: int) -> int:
    """The newest epoch that is over: -1, and then none is, before the second one began."""
    return epoch_at(now, epoch_seconds) - 1
