"""Fixtures of the command-line suite."""

from tests.crash.conftest import crashing

__all__ = ["crashing"]
