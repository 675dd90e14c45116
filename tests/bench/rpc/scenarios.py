"""Reads over three endpoints of which one misbehaves: how late the latest are, and what they cost the endpoints."""

from __future__ import annotations

import json
import sys
from collections.abc import Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeAlias

from attrs import frozen

from tests.bench.delivery.child import ROOT, Child, child
from tests.bench.rpc.sizes import Sizes

HERE = Path(__file__).parent
NODE_PACKAGES = ROOT / "tools" / "node"
TAYHO = "tayho"
WARMING_SECONDS = 20
ANSWER_SECONDS = 15

# By path, such as ("tayho", "hung", "p99_ms").
Figures: TypeAlias = Mapping[tuple[str, ...], float]

# What befalls one endpoint from the first measured read on: the one that the side asked most until then.
SCENARIOS: Mapping[str, str] = {"healthy": "none", "hung": "hung", "slow": "slow"}


@frozen
class Side:
    """One client, as a process of its own."""

    name: str
    process: str
    package: str = ""

    @property
    def command(self) -> Sequence[str | Path]:
        if self.process.endswith(".mjs"):
            return ["node", HERE / self.process, NODE_PACKAGES / "package.json"]
        return [sys.executable, "-m", f"tests.bench.rpc.{self.process}"]

    @property
    def is_installed(self) -> bool:
        return not self.package or (NODE_PACKAGES / "node_modules" / self.package).is_dir()


SIDES = (
    Side(TAYHO, "tayho_process"),
    Side("viem_fallback", "viem_process.mjs", "viem"),
    Side("ethers_fallback", "ethers_process.mjs", "ethers"),
)


def missing(sides: Collection[str]) -> list[str]:
    """What must be installed first, one sentence each."""
    return [f"{side.name}: run `make setup`" for side in SIDES if side.name in sides and not side.is_installed]


@frozen
class Endpoints:
    """The three servers: where they are, and their strings."""

    urls: Sequence[str]
    process: Child

    async def behave(self, faults: Sequence[str]) -> Sequence[Mapping[str, int]]:
        """Misbehave so from now on; what was asked of each until now."""
        await self.process.tell(json.dumps(list(faults)))
        return json.loads(await self.process.hear(ANSWER_SECONDS))


@asynccontextmanager
async def open_endpoints(folder: Path) -> Any:
    """Serve; the process ends with the block."""
    async with child("servers", ["node", HERE / "servers.mjs"], {}, folder) as process:
        yield Endpoints(json.loads(await process.hear(ANSWER_SECONDS)), process)


async def measure(side: Side, scenario: str, endpoints: Endpoints, sizes: Sizes, folder: Path) -> Figures:
    """A fresh client, warmed on healthy endpoints; then the scenario begins."""
    healthy = ["none"] * len(endpoints.urls)
    await endpoints.behave(healthy)
    async with child(side.name, side.command, {"urls": list(endpoints.urls)}, folder) as client:
        await _read(client, sizes.warming, sizes, WARMING_SECONDS)
        asked = await endpoints.behave(healthy)
        most = max(range(len(asked)), key=lambda at: asked[at]["reads"])
        await endpoints.behave([SCENARIOS[scenario] if at == most else "none" for at in range(len(asked))])
        answer = await _read(client, sizes.reads, sizes, sizes.seconds_max)
        asked = await endpoints.behave(healthy)
    times = sorted(answer["milliseconds"])
    path = (side.name, scenario)
    return {
        (*path, "p50_ms"): _quantile(times, 0.5),
        (*path, "p99_ms"): _quantile(times, 0.99),
        (*path, "max_ms"): times[-1],
        (*path, "failed"): answer["failed"],
        (*path, "reads"): len(times),
        (*path, "extra_requests_share"): sum(one["reads"] for one in asked) / len(times) - 1,
    }


async def _read(client: Child, reads: int, sizes: Sizes, seconds_max: float) -> Mapping[str, Any]:
    order = {"reads": reads, "in_flight": sizes.in_flight, "seconds_max": seconds_max}
    await client.tell(json.dumps(order))
    return json.loads(await client.hear(seconds_max + ANSWER_SECONDS))


def _quantile(ordered: Sequence[float], share: float) -> float:
    return ordered[min(int(share * len(ordered)), len(ordered) - 1)]
