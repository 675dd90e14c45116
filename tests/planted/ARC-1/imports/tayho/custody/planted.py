"""Custody may hold keys; it may not see its siblings."""

import coincurve
import tayho.transactions.module  # breaks contexts, breaks inside-tayho

__all__ = ["coincurve"]
