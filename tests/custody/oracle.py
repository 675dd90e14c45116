"""eth-account, as a second opinion. Its import of py_ecc raises the process's recursion limit; here it is put back."""

from __future__ import annotations

import sys

_limit = sys.getrecursionlimit()

from eth_account import Account  # noqa: E402
from eth_account.typed_transactions import TypedTransaction  # noqa: E402

sys.setrecursionlimit(_limit)

__all__ = ["Account", "TypedTransaction"]
