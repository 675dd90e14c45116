"""Replicas as real processes of this very program."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import trio
from attrs import define, field

from nursery.cleanup import finish

STOP_SECONDS = 70


class ReplicaDied(Exception):
    """A replica ended that nobody had told to."""


@define
class Replica:
    """One `tayho run`."""

    role: str
    instance_id: str
    process: trio.Process
    log: Path
    was_killed: bool = False
    is_expected_to_end: bool = False

    def kill(self) -> None:
        """SIGKILL: it gets no chance to say goodbye."""
        self.was_killed = self.is_expected_to_end = True
        self.process.send_signal(signal.SIGKILL)

    def terminate(self) -> None:
        """SIGTERM: it drains."""
        self.is_expected_to_end = True
        self.process.send_signal(signal.SIGTERM)

    def check(self) -> None:
        """Raises ReplicaDied, with the end of its log, if it is gone and nobody asked it to."""
        if self.process.poll() is not None and not self.is_expected_to_end:
            tail = "\n".join(self.log.read_text(errors="replace").splitlines()[-15:])
            raise ReplicaDied(f"replica {self.instance_id} ended with code {self.process.returncode}:\n{tail}")


@define
class Fleet:
    """The replicas of one demo."""

    folder: Path
    environment: Mapping[str, str]
    replicas: list[Replica] = field(factory=list[Replica])

    async def start(self, role: str, count: int, extra: Mapping[str, str] | None = None) -> list[Replica]:
        """Start `count` replicas of a role, `extra` variables over the common ones. They need a moment."""
        started: list[Replica] = []
        for _ in range(count):
            instance_id = f"{role}-{len(self.replicas) + 1}"
            log = self.folder / f"{instance_id}.log"
            with log.open("wb") as out:
                process = await trio.lowlevel.open_process(
                    [sys.executable, "-m", "tayho", "run", role],
                    env={**_inherited(), **self.environment, **(extra or {}), "INSTANCE_ID": instance_id},
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=out,
                )
            started.append(Replica(role, instance_id, process, log))
            self.replicas.append(started[-1])
        return started

    @property
    def living(self) -> list[Replica]:
        return [replica for replica in self.replicas if replica.process.poll() is None]

    def check(self) -> None:
        for replica in self.replicas:
            replica.check()

    async def stop(self) -> tuple[int, ...]:
        """SIGTERM to all, and how each ended that was not killed before."""
        told = self.living
        for replica in told:
            replica.terminate()
        with trio.move_on_after(STOP_SECONDS):
            for replica in told:
                await replica.process.wait()
        return tuple(_exit_code(replica) for replica in told)


@asynccontextmanager
async def fleet(folder: Path, environment: Mapping[str, str]) -> AsyncGenerator[Fleet]:
    """Replicas that do not outlive the block, however it ends."""
    one = Fleet(folder, environment)
    try:
        yield one
    finally:
        for replica in one.living:
            replica.kill()
        for replica in one.replicas:
            await finish(replica.process.wait, seconds=5)


def _exit_code(replica: Replica) -> int:
    code = replica.process.poll()
    return -1 if code is None else code


def _inherited() -> dict[str, str]:
    """What a process needs to run at all; no setting of the caller's may reach a replica."""
    return {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR") if name in os.environ}
