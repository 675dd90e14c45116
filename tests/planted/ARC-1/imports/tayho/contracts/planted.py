"""A contract that shows what no face shows."""

import tayho.coordination.store  # breaks inside-tayho
import tayho.daemon  # breaks inside-tayho
