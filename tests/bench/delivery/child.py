"""A measured process and how it is spoken with, whatever language it is written in.

Standard input: one line of JSON settings, then `go`, and its end as the order to stop. Standard output: `ready` once
everything is open, then one line of JSON as the answer. What it says on standard error is kept for the case it fails.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import trio
from attrs import define, field

from nursery.cleanup import finish

ROOT = Path(__file__).resolve().parents[3]
READY_SECONDS = 60
STOP_SECONDS = 30
LOG_LINES_SHOWN = 20


class ChildFailed(Exception):
    """A measured process ended too early, or said nothing. Carries the end of its log."""


@define(eq=False)
class Child:
    """One running process."""

    name: str
    process: trio.Process
    log: Path
    _heard: bytes = field(default=b"", init=False)

    async def tell(self, line: str) -> None:
        assert self.process.stdin is not None
        try:
            await self.process.stdin.send_all(f"{line}\n".encode())
        except trio.BrokenResourceError as error:
            raise self.failed("ended early") from error

    async def go(self) -> None:
        await self.tell("go")

    async def answer(self, seconds: float) -> Mapping[str, Any]:
        """Its answer, which it gives when its work is done, and its end."""
        answer = json.loads(await self.hear(seconds))
        if await self.process.wait() != 0:
            raise self.failed(f"ended with code {self.process.returncode}")
        return answer

    async def stop(self) -> Mapping[str, Any]:
        """End its standard input; its answer."""
        assert self.process.stdin is not None
        await self.process.stdin.aclose()
        return await self.answer(STOP_SECONDS)

    async def hear(self, seconds: float) -> str:
        """The next line that it prints. Raises ChildFailed when none comes in time."""
        assert self.process.stdout is not None
        with trio.move_on_after(seconds) as patience:
            while b"\n" not in self._heard:
                chunk = await self.process.stdout.receive_some()
                if not chunk:
                    raise self.failed("ended early")
                self._heard += chunk
        if patience.cancelled_caught:
            raise self.failed(f"said nothing for {seconds:g} s")
        line, _, self._heard = self._heard.partition(b"\n")
        return line.decode()

    def check(self) -> None:
        """Raises ChildFailed if it has ended."""
        if self.process.poll() is not None:
            raise self.failed(f"ended with code {self.process.returncode}")

    def failed(self, what: str) -> ChildFailed:
        lines = self.log.read_text(errors="replace").splitlines()[-LOG_LINES_SHOWN:]
        return ChildFailed("\n  ".join([f"{self.name} {what}; the end of its log:", *lines]))


@asynccontextmanager
async def child(
    name: str, command: Sequence[str | Path], settings: Mapping[str, object], folder: Path
) -> AsyncIterator[Child]:
    """The process, ready; killed on leaving if it has not ended by then."""
    log = folder / f"{name}.log"
    with log.open("ab") as errors:
        process = await trio.lowlevel.open_process(
            [str(word) for word in command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
    running = Child(name, process, log)
    try:
        await running.tell(json.dumps(settings))
        if await running.hear(READY_SECONDS) != "ready":
            raise running.failed("did not say that it is ready")
        yield running
    finally:
        if process.poll() is None:
            process.kill()
        await finish(process.wait, seconds=STOP_SECONDS)
