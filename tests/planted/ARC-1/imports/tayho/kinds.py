"""The plug-in interface, reaching into a context."""

import tayho.coordination.types  # breaks inside-tayho
