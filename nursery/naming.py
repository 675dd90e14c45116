"""How errors and logs name a callable."""

from collections.abc import Callable
from functools import partial


def name_of(fn: Callable[..., object]) -> str:
    """The qualified name of what `fn` calls.

    Never `repr(fn)`: the repr of a partial or of a bound method prints its arguments or its object, which may
    hold a secret.
    """
    while isinstance(fn, partial):
        fn = fn.func
    name = getattr(fn, "__qualname__", None)
    return name if isinstance(name, str) else type(fn).__qualname__
