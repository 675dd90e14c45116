"""Starting a server outside Trio: session fixtures are synchronous. The Trio starters of tayho.local share the rest."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

from attrs import define

from tayho.local.folder import throw_away_folder
from tayho.local.process import READY_SECONDS, STOP_SECONDS, Service, failed, start

# Creating a database takes 40 ms in memory, and more than a second on some disks.
_MEMORY = Path("/dev/shm")  # noqa: S108 - folders in it are made by mkdtemp
_ROOM_BYTES = 2 * 1024**3


@define(eq=False)
class Launched:
    """A server that runs until the fixture ends, or until a test ends it."""

    service: Service
    process: subprocess.Popen[bytes]

    @property
    def url(self) -> str:
        return self.service.url

    def signal(self, which: signal.Signals) -> None:
        """SIGKILL to crash it, SIGSTOP to freeze it, SIGCONT to let it go on."""
        self.process.send_signal(which)

    def restart(self, how: signal.Signals) -> None:
        """End it by the signal and start it again on the same port; what it kept on disk is there again."""
        self.process.send_signal(how)
        self.process.wait(STOP_SECONDS)
        self.process = start(self.service)
        _await_ready(self.service, self.process)


@contextmanager
def launched(prepare: Callable[[Path], Service]) -> Generator[Launched]:
    """Run the service that `prepare` makes of a new folder."""
    with throw_away_folder(memory_folder()) as folder:
        service = prepare(folder)
        server = Launched(service, start(service))
        try:
            _await_ready(service, server.process)
            yield server
        finally:
            _stop(service, server.process)


def _await_ready(service: Service, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + READY_SECONDS
    while not service.ready():
        if process.poll() is not None or time.monotonic() > deadline:
            raise failed(service, "did not become ready")
        time.sleep(0.01)


def _stop(service: Service, process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGCONT)
    process.send_signal(service.stop_signal)
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def memory_folder() -> Path | None:
    """A file system in memory with room, in which programs may run; else the usual place for temporary files."""
    if not os.access(_MEMORY, os.W_OK):
        return None
    state = os.statvfs(_MEMORY)
    roomy = state.f_bavail * state.f_frsize >= _ROOM_BYTES
    return _MEMORY if roomy and not state.f_flag & os.ST_NOEXEC else None
