"""A source that is a file on this machine, which another process replaces as a whole (write beside it, then rename)."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import trio

from tayho.protocol.sources.errors import SourceSilent, SourceUnusable

FILE_BYTES_MAX = 64 * 1_024


class JsonFile:
    """The bytes of a regular file. Whoever may write it is believed, unless its content is signed."""

    def __init__(self, path: str) -> None:
        self._path = Path(path)

    async def fetch(self) -> bytes:
        """Raises SourceSilent, SourceUnusable."""
        await trio.lowlevel.checkpoint()
        return _read(self._path)


def _read(path: Path) -> bytes:
    """At most 64 KiB of a local file: shorter than a thread would take to begin."""
    try:
        # Without waiting: a named pipe that nobody writes to would hold the process.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            return _content(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise SourceSilent(f"the file cannot be read: {error.strerror}") from error


def _content(descriptor: int) -> bytes:
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        raise SourceUnusable("the path names no regular file")
    content = bytearray()
    while len(content) <= FILE_BYTES_MAX and (chunk := os.read(descriptor, FILE_BYTES_MAX + 1)):
        content += chunk
    if len(content) > FILE_BYTES_MAX:
        raise SourceUnusable(f"the file is larger than {FILE_BYTES_MAX} bytes")
    return bytes(content)
