"""The image as it was built: what is in it, and a replica of it at work. Run by `make image-test`, which builds it.

The name of this file keeps it out of `make test`: it needs root, and an image that takes minutes to build.
"""

from __future__ import annotations

import os
import signal
import socket
import stat
import subprocess
from collections.abc import Generator
from pathlib import Path

import pytest
import trio

from tayho.local.process import free_port
from tests.crash.conftest import crashing
from tests.crash.world import World, environment_of
from tests.image.contained import SECRETS, Image, init_of, mounted, space_of
from tests.services.chain import LocalChain
from tests.waiting import until

__all__ = ["crashing"]
SECRET_NAMES = ("DATABASE_URL", "REDIS_URL", "RPC_URL", "SIGNER_KEYS", "TX_JOURNAL_KEYS")
NOBODY_ELSE = 10001
# Of the base; on a read-only root nobody can write there either.
OPEN_TO_ALL = {"tmp", "var/tmp", "run/lock"}


@pytest.fixture(scope="module")
def image() -> Generator[Image]:
    """The image that was built last."""
    with mounted() as one:
        yield one


@pytest.fixture
def secrets(tmp_path: Path) -> Path:
    """A folder for secrets that the image's user may read, and nobody else."""
    folder = tmp_path / "secrets"
    folder.mkdir(mode=0o700)
    return folder


def _mount_secrets(folder: Path, texts: dict[str, str]) -> dict[str, str]:
    """Put each secret into a file; the variables with NAME_FILE in the place of the secrets."""
    variables = {name: text for name, text in texts.items() if name not in SECRET_NAMES}
    for name in SECRET_NAMES:
        (folder / name).write_text(texts[name])
        variables[f"{name}_FILE"] = f"{SECRETS}/{name}"
    subprocess.run(["chown", "-R", f"{NOBODY_ELSE}:{NOBODY_ELSE}", folder], check=True)
    subprocess.run(["chmod", "-R", "u=rX,go=", folder], check=True)
    return variables


def test_the_image_says_who_it_is_and_how_it_is_asked(image: Image) -> None:
    """Goal: an engine starts it without root, without a shell, and asks it for its health. Method: read its config."""
    assert image.user == f"{NOBODY_ELSE}:{NOBODY_ELSE}"
    assert image.config["Entrypoint"] == ["tayho"]
    assert image.config["Healthcheck"]["Test"] == ["CMD", "tayho", "health"]
    assert image.config["StopSignal"] == "SIGTERM"
    assert image.environment["HTTP_BIND"] == "0.0.0.0:8080"


def test_the_image_holds_the_product_and_nothing_of_its_making(image: Image, secrets: Path) -> None:
    """Goal: nothing to install with, nothing of the builder's network, nothing that the user of the image could
    change. Method: look for installers, tests and pip's settings; list what is the user's own or open to all."""
    site = next((image.root / "opt/tayho/lib").glob("python3.*/site-packages"))
    assert {path.name for path in site.iterdir()} >= {"tayho", "nursery", "storage", "rpc", "sql"}
    assert not [name for name in ("pip", "uv", "hatchling", "tests", "tools") if (site / name).exists()]
    assert not (image.root / "etc/pip.conf").exists()
    assert not (image.root / "build").exists()
    assert not list((image.root / "opt/tayho").rglob("*.lock"))
    assert set(_changeable(image.root)) <= OPEN_TO_ALL
    assert image.run(secrets, "tayho", "--version").stdout.startswith("tayho, version ")


def _changeable(root: Path) -> Generator[str]:
    """What the image's user could write to, were the root file system not read-only."""
    for folder, folders, files in os.walk(root):
        for path in (Path(folder) / name for name in (*folders, *files)):
            seen = path.lstat()
            is_open = seen.st_mode & stat.S_IWOTH or NOBODY_ELSE in (seen.st_uid, seen.st_gid)
            if is_open and (stat.S_ISREG(seen.st_mode) or stat.S_ISDIR(seen.st_mode)):
                yield str(path.relative_to(root))


async def test_a_contained_replica_works_is_asked_and_drains(
    image: Image, secrets: Path, crashing: World, database_url: str, redis_url: str, chain: LocalChain, tmp_path: Path
) -> None:
    """Goal: OPS-13 as a whole. Method: a replica of the image as PID 1 on a read-only root, its secrets in files,
    against real servers: its own health check and its readiness answer, jobs take effect, an orphan left in its
    container is reaped, SIGTERM in the middle of work ends it with 0, and its sibling has nothing to mend but time."""
    port = free_port()
    variables = _mount_secrets(secrets, environment_of(database_url, redis_url, chain.url))
    variables |= {"HTTP_BIND": f"127.0.0.1:{port}", "DRAIN_SECONDS": "20", "INSTANCE_ID": "contained"}
    log = tmp_path / "contained.log"
    with log.open("wb") as out:
        replica = await trio.lowlevel.open_process(
            image.command(secrets, ["tayho", "run", "automation"]),
            env={**image.environment, **variables},
            stdout=out,
            stderr=out,
        )
    try:
        check = image.config["Healthcheck"]["Test"][1:]

        async def answers(*command: str) -> bool:
            assert replica.poll() is None, log.read_text()
            asked = await trio.to_thread.run_sync(lambda: image.run(secrets, *command, **variables))
            return asked.returncode == 0

        await until(lambda: answers(*check), seconds=60, what="the image's own health check")
        await until(lambda: answers("tayho", "health", "--ready"), seconds=30, what="readiness")
        init = init_of(replica.pid)
        _assert_confined(init)
        await _leave_an_orphan(init)
        job_ids = await crashing.enqueue("first", 5)
        assert set((await crashing.await_all_ended(job_ids)).values()) == {"completed"}

        late = await crashing.enqueue("late", 30)

        async def in_flight() -> bool:
            return (await crashing.jobs.count_by_state()).get("confirming", 0) > 0

        await until(in_flight, seconds=30, what="transactions in flight")
        os.kill(init, signal.SIGTERM)
        with trio.fail_after(25):
            assert await replica.wait() == 0, log.read_text()[-2000:]
        assert '"stopped"' in log.read_text()
    finally:
        replica.kill()
    await crashing.start()
    assert set((await crashing.await_all_ended(late)).values()) == {"completed"}
    assert set((await crashing.effects([*job_ids, *late])).values()) == {1}
    await crashing.check()


def _assert_confined(init: int) -> None:
    """One process, with no identity but its own, no capability, and no way to one."""
    status = dict(line.split(":", 1) for line in Path(f"/proc/{init}/status").read_text().splitlines())
    assert status["Uid"].split() == status["Gid"].split() == [str(NOBODY_ELSE)] * 4
    assert status["Groups"].split() == []
    assert {int(status[name], 16) for name in ("CapPrm", "CapEff", "CapBnd", "CapAmb")} == {0}
    assert status["NoNewPrivs"].strip() == "1"
    assert status["NSpid"].split()[-1] == "1"
    assert space_of(init) == [init]
    mounts = [line.split() for line in Path(f"/proc/{init}/mounts").read_text().splitlines()]
    assert {mount[1]: mount[3].split(",")[0] for mount in mounts}["/"] == "ro"


async def _leave_an_orphan(init: int) -> None:
    """Somebody executes something in the container and leaves its child behind: when it ends, no zombie stays."""
    entered = ["nsenter", "--target", str(init), "--pid", "sh", "-c", "sleep 600 >/dev/null 2>&1 &"]
    await trio.run_process(entered)
    (orphan,) = set(space_of(init)) - {init}
    os.kill(orphan, signal.SIGKILL)
    await until(lambda: space_of(init) == [init], what="the orphan to be gone")


async def test_pid_1_can_be_told_to_stop_before_it_has_begun(image: Image, secrets: Path, chain: LocalChain) -> None:
    """Goal: no container that hangs at its start is killed only at the end of its grace period. Method: PostgreSQL's
    place is taken by somebody who says nothing; SIGTERM while PID 1 waits for it."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.setblocking(False)
        url = f"postgresql://user:word@127.0.0.1:{silent.getsockname()[1]}/none"
        variables = _mount_secrets(secrets, environment_of(url, "redis://127.0.0.1:1", chain.url))
        replica = await trio.lowlevel.open_process(
            image.command(secrets, ["tayho", "run", "automation"]),
            env={**image.environment, **variables},
            stderr=subprocess.PIPE,
        )
        try:
            listening = trio.socket.from_stdlib_socket(silent.dup())
            with trio.fail_after(30):
                taken, _ = await listening.accept()
            os.kill(init_of(replica.pid), signal.SIGTERM)
            with trio.fail_after(5):
                assert await replica.wait() == 128 + signal.SIGTERM
            taken.close()
            listening.close()
        finally:
            replica.kill()
