"""A host that reaches behind a face."""

import tayho.coordination.store  # breaks ARC-1
from tayho.coordination import store  # breaks ARC-1

__all__ = ["store", "tayho"]
