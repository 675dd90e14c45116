"""Bytes that must not be seen, held for as short a time as Python allows."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from types import TracebackType
from typing import NoReturn, final

from tayho.custody.errors import KeyWiped


@final
class KeyMaterial:
    """A key that never prints, pickles, compares, hashes or copies its bytes, and is overwritten when its scope ends.

    Use it as a context manager, or call `wipe`; take the bytes with `revealed` at the last moment before the primitive.

    What this does not promise: zeroisation in CPython is best effort. The text the key was parsed from, and the copies
    that the wrappers of libsecp256k1 and AES make for one call, are immutable or out of reach and stay in freed memory
    until something overwrites it; nothing is locked against swapping. The class stops accidents (a log line, a
    debugger's repr, a traceback with locals, a pickled job), not code that runs in this process: against that a signer
    elsewhere helps (TX-16).
    """

    __slots__ = ("_octets",)

    def __init__(self, octets: bytearray) -> None:
        """Take the bytes over: `octets` is overwritten with zeros, so that no second copy stays with the caller."""
        self._octets = bytearray(octets)
        _overwrite(octets)

    @contextmanager
    def revealed(self) -> Generator[bytearray]:
        """Lend a copy of the bytes, overwritten on the way out however the block ends.

        A copy, not the original: a frame that outlives the block in a traceback then shows zeros. Raises KeyWiped.
        """
        if self.wiped:
            raise KeyWiped
        lent = bytearray(self._octets)
        try:
            yield lent
        finally:
            _overwrite(lent)

    def wipe(self) -> None:
        """Overwrite the bytes. Harmless when repeated; afterwards `revealed` raises KeyWiped."""
        _overwrite(self._octets)
        self._octets.clear()

    @property
    def wiped(self) -> bool:
        return not self._octets

    def __enter__(self) -> KeyMaterial:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.wipe()

    def __repr__(self) -> str:
        return "KeyMaterial(wiped)" if self.wiped else "KeyMaterial(hidden)"

    def __eq__(self, other: object) -> NoReturn:
        # Falling back to identity would answer "different" for equal keys, and a byte comparison leaks through time.
        raise TypeError("key material is neither compared nor hashed: use the address or the key id")

    __hash__ = None  # pyright: ignore[reportAssignmentType]

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        # Pickle, copy and deepcopy all come through here.
        raise TypeError("key material is neither pickled nor copied")

    def __getstate__(self) -> NoReturn:
        # Python 3.11's default hands out every slot.
        raise TypeError("key material has no state to hand out")


def _overwrite(octets: bytearray) -> None:
    # Invariant: equal length on both sides, so the assignment writes in place and never reallocates.
    octets[:] = bytes(len(octets))
