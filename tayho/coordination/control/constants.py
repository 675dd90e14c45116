"""Words that the control of jobs shares."""

from __future__ import annotations

CANCELLED = "Cancelled"  # the type of `last_error` in a job that an operator ended
# From these a job can be cancelled, as long as it owns no nonce.
OPEN_STATES = ("queued", "retry", "processing")
