"""ethers and viem, each in a Node process of its own that takes one cell at a time and may die of it."""

from __future__ import annotations

import json
import subprocess
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import trio
from attrs import define, field

from tests.rpc.front.ground import Ground
from tests.rpc.matrix.cells import Cell, Outcome
from tests.rpc.matrix.questions import subject
from tests.rpc.matrix.sides import ENDPOINT_SECONDS, WARMING

HERE = Path(__file__).parent
PACKAGES = HERE.parents[2] / "tools" / "node" / "package.json"
PEERS = ("ethers", "viem")
_START_SECONDS = 20
_CLOSE_SECONDS = 1
_DIED = Outcome("crashed", name="the process died")


class Died(Exception):
    """The process ended, or does not answer any more."""


@define
class Process:
    """A Node process under way: a line in, a line out."""

    running: trio.Process
    received: bytes = b""

    async def told(self, message: dict[str, object]) -> dict[str, Any]:
        """Tell it something and wait for its answer. Raises Died."""
        assert self.running.stdin is not None
        try:
            await self.running.stdin.send_all(json.dumps(message).encode() + b"\n")
        except trio.BrokenResourceError as error:
            raise Died from error
        return await self.heard()

    async def heard(self) -> dict[str, Any]:
        """Its next line. Raises Died."""
        assert self.running.stdout is not None
        while b"\n" not in self.received:
            chunk = await self.running.stdout.receive_some()
            if not chunk:
                raise Died
            self.received += chunk
        line, _, self.received = self.received.partition(b"\n")
        return json.loads(line)


@define
class PeerSeat:
    """Plays cells in a process; a new one after one that died, or was cut off in the middle of a cell."""

    peer: str
    processes: trio.Nursery
    process: Process | None = field(default=None)

    @asynccontextmanager
    async def opened(self, cell: Cell, urls: Sequence[str], ground: Ground) -> AsyncGenerator[PeerAsking]:
        """See Seat."""
        asking = PeerAsking(self.process or await self._started())
        self.process = None
        try:
            await asking.open(cell, urls, ground)
            yield asking
        finally:
            if await asking.closed():
                self.process = asking.process
            else:
                asking.process.running.kill()

    async def _started(self) -> Process:
        # Piped errors would fill and stop it: what it says there is of no use here.
        run = partial(
            trio.run_process,
            ["node", str(HERE / f"{self.peer}_peer.mjs"), str(PACKAGES)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            check=False,
        )
        process = Process(await self.processes.start(run))
        with trio.fail_after(_START_SECONDS):
            await process.heard()
        return process


@define
class PeerAsking:
    """One cell in a peer's process."""

    process: Process
    is_answered: bool = False

    async def open(self, cell: Cell, urls: Sequence[str], ground: Ground) -> None:
        """Set the peer over the endpoints."""
        opening = {
            "do": "open",
            "urls": list(urls),
            "question": cell.question,
            "votes": cell.way in ("vote", "finality"),
            "about": subject(ground),
            "endpointMilliseconds": round(ENDPOINT_SECONDS * 1000),
        }
        with suppress(Died):
            await self.process.told(opening)

    async def warm(self) -> None:
        """See Asking."""
        with suppress(Died):
            await self.process.told({"do": "warm", "times": WARMING})

    async def ask(self) -> Outcome:
        """See Asking."""
        try:
            answer = await self.process.told({"do": "ask"})
        except Died:
            return _DIED
        self.is_answered = True
        return Outcome(answer["kind"], answer.get("value"), answer.get("name", ""))

    async def closed(self) -> bool:
        """Whether the process let go of the cell and can play another."""
        closed = False
        if self.is_answered:
            with trio.move_on_after(_CLOSE_SECONDS), suppress(Died):
                await self.process.told({"do": "close"})
                closed = True
        return closed


@asynccontextmanager
async def seats_of(peer: str, count: int) -> AsyncGenerator[list[PeerSeat]]:
    """So many seats, whose processes end with the block."""
    async with trio.open_nursery() as processes:
        yield [PeerSeat(peer, processes) for _ in range(count)]
        processes.cancel_scope.cancel()
