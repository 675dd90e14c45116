"""The other queues: each a process of its own on the same servers, working off no-op jobs that were there before."""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path

from attrs import field, frozen

from tests.bench.delivery.child import ROOT, child
from tests.bench.delivery.parts import Figures, Incomplete, Part
from tests.bench.delivery.services import EMPTY, Services
from tests.bench.delivery.sizes import FAST, SLOW, Sizes

HERE = Path(__file__).parent
NODE_PACKAGES = ROOT / "tools" / "node"
SLOWEST_PER_SECOND = 50


@frozen
class Peer:
    """One queue as it is measured."""

    name: str
    # The package that must be installed, and the process that drives it.
    package: str
    process: str
    # Handlers at once; of several, the best counts.
    concurrencies: Sequence[int]
    # How many jobs it gets, as a multiple of the run's.
    share: float = 1
    settings: Mapping[str, object] = field(factory=dict)

    @property
    def runs_in_node(self) -> bool:
        return self.process.endswith(".mjs")

    @property
    def command(self) -> Sequence[str | Path]:
        if self.runs_in_node:
            return ["node", HERE / self.process, NODE_PACKAGES / "package.json"]
        return [sys.executable, "-m", f"tests.bench.delivery.{self.process}"]

    @property
    def is_installed(self) -> bool:
        if self.runs_in_node:
            return (NODE_PACKAGES / "node_modules" / self.package).is_dir()
        return find_spec(self.package) is not None


PEERS = (
    Peer("procrastinate", "procrastinate", "procrastinate_process", (16, 64), SLOW),
    Peer("bullmq_python", "bullmq", "bullmq_process", (16, 64)),
    Peer("bullmq_node", "bullmq", "bullmq_process.mjs", (16,), FAST),
    Peer("graphile", "graphile-worker", "graphile_process.mjs", (24,)),
    Peer("graphile_local_queue", "graphile-worker", "graphile_process.mjs", (24,), FAST, {"local_queue": True}),
)


def parts(sides: Collection[str]) -> list[Part]:
    """The parts of the peers that are asked for."""
    return [
        Part(peer.name, f"concurrency {concurrency}", partial(throughput, peer, concurrency))
        for peer in PEERS
        if peer.name in sides
        for concurrency in peer.concurrencies
    ]


def missing(sides: Collection[str]) -> list[str]:
    """What must be installed first, one sentence each."""
    return [
        f"{peer.name}: run `make setup`"
        if peer.runs_in_node
        else f"{peer.name}: run `.venv/bin/uv pip install --editable '.[bench]'`"
        for peer in PEERS
        if peer.name in sides and not peer.is_installed
    ]


async def throughput(peer: Peer, concurrency: int, services: Services, sizes: Sizes) -> Figures:
    """Jobs a second of one process.

    Raises:
        Incomplete: its own store does not call all of them done.
    """
    jobs = max(round(sizes.jobs * peer.share), 1)
    async with services.database(EMPTY) as url:
        settings = {
            "database_url": url,
            "redis_url": services.redis_url,
            "jobs": jobs,
            "concurrency": concurrency,
            **peer.settings,
        }
        async with child(peer.name, peer.command, settings, services.folder) as process:
            await services.settle(url)
            await process.go()
            answer = await process.answer(60 + jobs / SLOWEST_PER_SECOND)
    if answer["done"] != jobs:
        raise Incomplete(f"{peer.name}: {answer['done']} of {jobs} jobs were done")
    return {("peers", peer.name, str(concurrency)): jobs / answer["seconds"]}
