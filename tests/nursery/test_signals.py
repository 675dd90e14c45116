"""Signals: the first stop request drains, the second changes nothing, SIGUSR1 shows the tasks."""

import os
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest
import trio

from nursery.drain import Drain
from nursery.signals import watch_signals
from tests.waiting import until


@asynccontextmanager
async def watching(drain: Drain, repeats: list[str]) -> AsyncGenerator[None]:
    """Signals are caught inside; sending one before the receiver stands would end the test run."""
    before = signal.getsignal(signal.SIGUSR1)
    async with trio.open_nursery() as tasks:
        tasks.start_soon(lambda: watch_signals(drain, on_repeat=repeats.append), name="signals")
        await until(lambda: signal.getsignal(signal.SIGUSR1) is not before, what="the receiver stands")
        yield
        tasks.cancel_scope.cancel()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_first_signal_requests_the_drain_with_its_name(number: signal.Signals) -> None:
    """Goal: both ways of stopping drain. Method: send this process the signal."""
    drain, repeats = Drain(seconds=60), list[str]()
    async with watching(drain, repeats):
        os.kill(os.getpid(), number)
        with trio.fail_after(5):
            await drain.wait_requested()
    assert drain.reason == number.name
    assert repeats == []


async def test_second_signal_is_told_and_does_not_skip_the_drain() -> None:
    """Goal: impatience cannot cut off work. Method: a bounded body must survive the second signal, with the first
    reason and the first deadline."""
    drain, repeats = Drain(seconds=60), list[str]()
    async with watching(drain, repeats), drain.bounded() as bounded:
        os.kill(os.getpid(), signal.SIGTERM)
        await until(lambda: drain.requested, what="the drain")
        left = drain.seconds_left
        os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGINT)
        await until(lambda: len(repeats) == 2, what="both repeats are told")
    assert not bounded.cut_off
    assert drain.reason == "SIGTERM"
    assert 0 < drain.seconds_left <= left
    assert sorted(repeats) == ["SIGINT", "SIGTERM"]


async def test_repeat_without_a_listener_is_harmless() -> None:
    """Goal: the callback is optional. Method: two signals and a third that proves the watch lives."""
    drain = Drain(seconds=60)
    before = signal.getsignal(signal.SIGTERM)
    async with trio.open_nursery() as tasks:
        tasks.start_soon(watch_signals, drain)
        await until(lambda: signal.getsignal(signal.SIGTERM) is not before, what="the receiver stands")
        for _ in range(3):
            os.kill(os.getpid(), signal.SIGTERM)
        with trio.fail_after(5):
            await drain.wait_requested()
        tasks.cancel_scope.cancel()
    assert signal.getsignal(signal.SIGTERM) is before


async def test_sigusr1_writes_the_task_tree_and_does_not_drain(capsys: pytest.CaptureFixture[str]) -> None:
    """Goal: one can look without stopping. Method: send SIGUSR1 and read stderr."""
    drain, written = Drain(seconds=60), list[str]()

    def tree_written() -> bool:
        written.append(capsys.readouterr().err)
        return "signals" in "".join(written)

    async with watching(drain, []):
        os.kill(os.getpid(), signal.SIGUSR1)
        await until(tree_written, what="the tree is written")
    assert "nursery.signals.watch_signals:" in "".join(written)
    assert not drain.requested


async def test_closed_stderr_does_not_end_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: a diagnosis never kills. Method: a stderr that raises BrokenPipeError; the watch must still drain."""

    class Broken:
        asked = 0

        def write(self, text: str) -> int:
            self.asked += 1
            raise BrokenPipeError

        def flush(self) -> None: ...

    broken, drain = Broken(), Drain(seconds=60)
    async with watching(drain, []):
        monkeypatch.setattr("sys.stderr", broken)
        os.kill(os.getpid(), signal.SIGUSR1)
        await until(lambda: broken.asked == 1, what="the dump was tried")
        os.kill(os.getpid(), signal.SIGTERM)
        await until(lambda: drain.requested, what="the drain")


_AS_INIT = """
import os, signal
real, os.getpid = os.getpid(), lambda: {pid}
from nursery.signals import act_as_init
act_as_init(starts_children={starts_children})
print(signal.getsignal(signal.SIGCHLD) == signal.SIG_IGN, flush=True)
os.kill(real, signal.{name})
signal.pause()
"""


@pytest.mark.parametrize(
    ("pid", "starts_children", "name", "reaps", "ending"),
    [
        (1, False, "SIGTERM", "True", 128 + signal.SIGTERM),
        (1, True, "SIGINT", "False", 128 + signal.SIGINT),
        (7, False, "SIGTERM", "False", -signal.SIGTERM),
    ],
)
def test_pid_1_ends_at_a_signal_as_any_other_would(
    pid: int, starts_children: bool, name: str, reaps: str, ending: int
) -> None:
    """Goal: no handler that only PID 1 needs is missing there, or there elsewhere. Method: a process that takes itself
    for the given one, and sends itself a signal; only one that starts no children leaves them to the kernel.

    The exit code shows the handler: the kernel itself would have ended this process by the signal. A real PID 1 is
    tried by `make image-test`.
    """
    program = _AS_INIT.format(pid=pid, starts_children=starts_children, name=name)
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=30)
    assert (ended.stdout.strip(), ended.returncode) == (reaps, ending), ended.stderr
