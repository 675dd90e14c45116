"""Exact decimals as integers in their smallest unit. Nothing is ever rounded."""

from __future__ import annotations

import re
from decimal import Decimal

_DECIMAL = re.compile(r"-?[0-9]{1,78}(?:\.[0-9]{1,78})?(?:[eE][+-]?[0-9]{1,3})?", re.ASCII)
# A uint256 has 78 digits; beyond it nothing means anything on the chain.
_EXPONENT_MAX = 156


class DecimalRefused(ValueError):
    """The number is none, or is not a whole number of the unit."""


def scaled(number: int | Decimal | str, decimals: int) -> int:
    """The number in units of 10^-decimals: `scaled("0.25", 2)` is 25. Raises DecimalRefused."""
    if isinstance(number, str):
        if _DECIMAL.fullmatch(number) is None:
            raise DecimalRefused("the text is no decimal number")
        number = Decimal(number)
    if isinstance(number, int):
        return number * 10**decimals
    if not number.is_finite():
        raise DecimalRefused("the number is not finite")
    sign, digits, exponent = number.as_tuple()
    # Looked at before it is computed: 1e999999999 fits in a few bytes, and no memory holds what it means.
    if not isinstance(exponent, int) or abs(exponent) > _EXPONENT_MAX or len(digits) > _EXPONENT_MAX:
        raise DecimalRefused(f"the number has more digits than {_EXPONENT_MAX}, or so great an exponent")
    significand = int("".join(map(str, digits)))
    shift = exponent + decimals
    magnitude, rest = (significand * 10**shift, 0) if shift >= 0 else divmod(significand, 10**-shift)
    if rest:
        raise DecimalRefused(f"the number has more than {decimals} decimals")
    return -magnitude if sign else magnitude
