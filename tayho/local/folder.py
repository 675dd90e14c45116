"""Folders that are gone with their owner: at its end, or, where it was killed, when the next owner comes."""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

_PREFIX: Final = "tayho-"
# The owner holds a lock on it; the kernel takes the lock away when the owner dies, however it dies.
_LOCK: Final = "owner.lock"
_NEW_LOCK: Final = "owner.lock.new"


@contextmanager
def throw_away_folder(parent: Path | None = None) -> Generator[Path]:
    """A new folder, gone afterwards with all that is in it; without `parent`, among the system's temporary files.

    Also takes away those of ours beside it whose owner was killed.
    """
    with tempfile.TemporaryDirectory(prefix=_PREFIX, dir=parent, ignore_cleanup_errors=True) as name:
        folder = Path(name)
        # Under root PostgreSQL runs as another account, which must pass through; what lies inside is closed to it.
        folder.chmod(0o711)
        lock = os.open(folder / _NEW_LOCK, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            # Held before it has the name that others look for: none of them ever sees it free.
            (folder / _NEW_LOCK).rename(folder / _LOCK)
            _remove_orphans(folder.parent)
            yield folder
        finally:
            os.close(lock)


def _remove_orphans(parent: Path) -> None:
    for folder in parent.glob(f"{_PREFIX}*"):
        # A folder without a lock is just being made, or another program's; one with a lock that is held is in use.
        try:
            lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError:
            continue
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            continue
        finally:
            os.close(lock)
        shutil.rmtree(folder, ignore_errors=True)
