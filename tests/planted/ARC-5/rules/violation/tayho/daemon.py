"""A host that takes declarations from an application file."""

from tayho.coordination.module import RETRY_MAX, Coordination, Ended, Verdict

__all__ = ["RETRY_MAX", "Coordination", "Ended", "Verdict"]
