"""One foreign server process of our own: started, awaited, stopped, and never outliving us."""

import os
import random
import shutil
import signal
import socket
import subprocess
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final, TypedDict

import trio
from attrs import field, frozen

from nursery.cleanup import finish

READY_SECONDS: Final = 20.0
STOP_SECONDS: Final = 5.0
_POLL_SECONDS: Final = 0.02
_LOG_LINES_SHOWN: Final = 5
# Below the range from which systems take the ports of outgoing connections (Linux: 32768 and up).
_PORTS: Final = range(15_000, 32_000)


class ToolMissing(Exception):
    """A program that the local stack needs is not installed. The message is one line and names the remedy."""


class LocalProcessFailed(Exception):
    """A server of the local stack did not come up, or died. Carries the end of its log."""


@frozen
class Account:
    """The system account a process runs as, where it must not be ours."""

    name: str
    user_id: int
    group_id: int


@frozen
class Service:
    """A server process: how it is started, when it is ready, where it then is, how it stops."""

    name: str
    command: tuple[str, ...]
    # It may hold a password.
    url: str = field(repr=False)
    ready: Callable[[], bool]
    log: Path
    folder: Path
    stop_signal: signal.Signals = signal.SIGTERM
    account: Account | None = None


@frozen
class Running:
    service: Service
    process: "subprocess.Popen[bytes]"

    async def watch(self) -> None:
        """Wait for ever; raises LocalProcessFailed when the process has ended, which nobody asked it to."""
        await _until(lambda: self.process.poll() is not None)
        raise failed(self.service, f"ended with code {self.process.returncode}")


@asynccontextmanager
async def running(service: Service) -> AsyncGenerator[Running]:
    """Start `service`, wait until it is ready, stop it on leaving.

    Raises:
        LocalProcessFailed: it ended or was not ready within READY_SECONDS.
    """
    process = start(service)
    try:
        with trio.move_on_after(READY_SECONDS) as patience:
            await _until(lambda: service.ready() or process.poll() is not None)
        if patience.cancelled_caught or process.returncode is not None:
            raise failed(service, "did not become ready")
        yield Running(service, process)
    finally:
        await finish(_stop, service, process, seconds=2 * STOP_SECONDS)


def start(service: Service) -> "subprocess.Popen[bytes]":
    """Start the process, in the calling thread.

    Not `trio.run_process`: that forks in a worker thread, and the parent-death signal fires when that thread ends.
    Its own session, because Ctrl-C in a terminal goes to the whole foreground group: we stop first, then it.
    """
    with service.log.open("ab") as log:
        return subprocess.Popen(  # noqa: S603 - a program and arguments of our own
            _dying_with_parent(service),
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            **child_options(service.folder, service.account),
        )


class ChildOptions(TypedDict):
    """What every child process is started with, by subprocess or by Trio."""

    stdin: int
    cwd: Path
    env: dict[str, str]
    user: int | None
    group: int | None
    extra_groups: list[int] | None


def child_options(folder: Path, account: Account | None) -> ChildOptions:
    """A child sees nothing of our environment, which holds secrets, and of our rights only its account's."""
    return ChildOptions(
        stdin=subprocess.DEVNULL,
        cwd=folder,
        env={"PATH": os.environ.get("PATH", os.defpath), "HOME": str(folder), "LC_ALL": "C", "TZ": "UTC"},
        user=None if account is None else account.user_id,
        group=None if account is None else account.group_id,
        extra_groups=None if account is None else [],
    )


def free_port() -> int:
    """A loopback port that nothing listens on now, outside the range of outgoing connections.

    Raises:
        LocalProcessFailed: none of a hundred tried was free.
    """
    # Which port does not matter to anybody; it must only differ between processes that start together.
    for port in random.SystemRandom().sample(_PORTS, 100):
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        return port
    raise LocalProcessFailed("no free loopback port was found: close some of the servers on this machine.")


def listening(port: int) -> bool:
    """Whether something accepts connections at a loopback port. The kernel answers at once: this does not block."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def failed(service: Service, what: str) -> LocalProcessFailed:
    """The error for a service, with the last lines of its log."""
    lines = service.log.read_text(errors="replace").splitlines()[-_LOG_LINES_SHOWN:]
    return LocalProcessFailed("\n  ".join([f"the local {service.name} {what}; the end of its log:", *lines]))


def _dying_with_parent(service: Service) -> tuple[str, ...]:
    # A parent that is SIGKILLed cleans up nothing: the kernel then tells the child to go (prctl PR_SET_PDEATHSIG).
    # setpriv is part of util-linux; where it is missing, only a clean exit stops the children.
    setpriv = shutil.which("setpriv")
    if setpriv is None:
        return service.command
    return (setpriv, "--pdeathsig", service.stop_signal.name.removeprefix("SIG"), "--", *service.command)


async def _stop(service: Service, process: "subprocess.Popen[bytes]") -> None:
    if process.poll() is None:
        process.send_signal(service.stop_signal)
    with trio.move_on_after(STOP_SECONDS) as patience:
        await _until(lambda: process.poll() is not None)
    if patience.cancelled_caught:
        process.kill()
        await _until(lambda: process.poll() is not None)


async def _until(condition: Callable[[], bool]) -> None:
    # The kernel has no portable event for "a child that is not ours to reap by SIGCHLD has ended" or "it listens now".
    while not condition():  # noqa: ASYNC110 - see above
        await trio.sleep(_POLL_SECONDS)
