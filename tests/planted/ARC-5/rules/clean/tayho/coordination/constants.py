"""Constants."""

from typing import Final

ATTEMPTS_MAX: Final = 8
ROLES = frozenset({"relayer", "guardian"})
