"""The one sibling that takes a verdict."""

from tayho.coordination.module import Verdict

__all__ = ["Verdict"]
