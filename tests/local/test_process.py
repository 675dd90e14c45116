"""A server of our own: up when ready, down when left, told of when it dies."""

from pathlib import Path

import psutil
import pytest
import trio

from tayho.local import process
from tayho.local.process import LocalProcessFailed, Service, free_port, listening, running
from tests.waiting import until


def _service(folder: Path, script: str, *, ready: bool = True) -> Service:
    return Service(
        name="example",
        command=("/bin/sh", "-c", script),
        url="",
        ready=lambda: ready,
        log=folder / "example.log",
        folder=folder,
    )


async def test_runs_for_the_block_and_dies_with_it(tmp_path: Path) -> None:
    """Goal: the process lives exactly as long as the block, also when the block is cancelled. Method: both ends."""
    service = _service(tmp_path, "exec sleep 60")
    async with running(service) as example:
        assert example.process.poll() is None
    assert example.process.returncode == -15
    with trio.CancelScope() as scope:
        async with running(service) as example:
            scope.cancel()
            await trio.sleep_forever()
    assert example.process.returncode == -15


async def test_stubborn_process_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: a process that ignores its signal is killed after a while. Method: one that traps SIGTERM."""
    monkeypatch.setattr(process, "STOP_SECONDS", 0.3)
    trapped = tmp_path / "trapped"
    service = _service(tmp_path, f"trap '' TERM; touch {trapped}; while :; do sleep 0.1; done")
    async with running(service) as example:
        await until(trapped.exists)
    assert example.process.returncode == -9


async def test_early_end_is_reported_with_the_log(tmp_path: Path) -> None:
    """Goal: a server that ends instead of coming up says why. Method: one that complains and exits."""
    with pytest.raises(LocalProcessFailed, match=r"(?s)local example did not become ready.*port is taken"):
        async with running(_service(tmp_path, "echo 'port is taken' >&2; exit 3", ready=False)):
            pass


async def test_never_ready_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: waiting for readiness has a bound, and the process does not stay. Method: one that is never ready."""
    monkeypatch.setattr(process, "READY_SECONDS", 0.2)
    pid = tmp_path / "pid"
    with pytest.raises(LocalProcessFailed, match="did not become ready"):
        async with running(_service(tmp_path, f"echo $$ > {pid}; exec sleep 60", ready=False)):
            pass
    assert not psutil.pid_exists(int(pid.read_text()))


async def test_death_is_told(tmp_path: Path) -> None:
    """Goal: a server that dies ends the watch with its name and the end of its log. Method: let it die at a word."""
    word = tmp_path / "word"
    script = f"until [ -e {word} ]; do sleep 0.02; done; echo farewell; exit 7"
    async with running(_service(tmp_path, script)) as example:
        word.touch()
        with trio.fail_after(10), pytest.raises(LocalProcessFailed, match=r"(?s)ended with code 7.*farewell"):
            await example.watch()


async def test_children_do_not_see_our_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: secrets of the parent stay there. Method: print a child's environment."""
    monkeypatch.setenv("SIGNER_KEYS", "0x1234")
    shown = tmp_path / "shown"
    async with running(_service(tmp_path, f"env > {shown}.new; mv {shown}.new {shown}; exec sleep 60")):
        await until(shown.exists)
    assert "SIGNER_KEYS" not in shown.read_text()


async def test_free_port_and_listening() -> None:
    """Goal: a free port is one that nothing listens on. Method: listen on it."""
    port = free_port()
    assert not listening(port)
    async with trio.open_nursery() as serving:
        await serving.start(trio.serve_tcp, _close, port)
        assert listening(port)
        serving.cancel_scope.cancel()


async def _close(stream: trio.SocketStream) -> None:
    await stream.aclose()
