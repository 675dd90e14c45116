"""The other senders, each a process of its own on a chain of its own, and the limit: bytes that were signed before."""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import trio
from attrs import field, frozen

from tests.bench.chain.parts import Figures, Part
from tests.bench.chain.sizes import Sizes
from tests.bench.chain.world import CHAIN_ID, World, world
from tests.bench.delivery.child import ROOT, child
from tests.bench.delivery.services import Services

HERE = Path(__file__).parent
NODE_PACKAGES = ROOT / "tools" / "node"
LIMIT = "limit_presigned"
ACCOUNTS = 16
# Beyond the measured time: signing before it, and answers after it.
PREPARING_SECONDS = 120
# A record costs 50,000 gas at most; what was signed before could not ask.
PRESIGNED_GAS = 120_000
PRESIGNED_FEE_WEI = 50 * 10**9


@frozen
class Peer:
    """One sender as it is measured."""

    name: str
    package: str
    process: str
    settings: Mapping[str, object] = field(factory=dict)

    @property
    def runs_in_node(self) -> bool:
        return self.process.endswith(".mjs")

    @property
    def command(self) -> Sequence[str | Path]:
        if self.runs_in_node:
            return ["node", HERE / self.process, NODE_PACKAGES / "package.json"]
        return [sys.executable, "-m", f"tests.bench.chain.{self.process}"]

    @property
    def is_installed(self) -> bool:
        if self.runs_in_node:
            return (NODE_PACKAGES / "node_modules" / self.package).is_dir()
        return find_spec(self.package) is not None


PRESIGNED = Peer(LIMIT, "httpx2", "presigned_process")
PEERS = (
    Peer("viem_batch", "viem", "viem_process.mjs", {"batched": True}),
    Peer("viem", "viem", "viem_process.mjs", {"batched": False}),
    Peer("web3py", "web3", "web3_process"),
)


def parts(sides: Collection[str]) -> list[Part]:
    """The parts of the peers, and of the limit, that are asked for."""
    return [
        Part(peer.name, "16 accounts", partial(throughput, peer)) for peer in (PRESIGNED, *PEERS) if peer.name in sides
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


async def throughput(peer: Peer, services: Services, sizes: Sizes) -> Figures:
    """Transactions a second that the node took, and that were mined until the last one was."""
    path = (LIMIT,) if peer is PRESIGNED else ("peers", peer.name)
    async with (
        world(services.folder, ACCOUNTS) as chain,
        child(peer.name, peer.command, _settings(peer, chain, sizes), services.folder) as process,
    ):
        await process.go()
        began = trio.current_time()
        answer = await process.answer(PREPARING_SECONDS + 2 * sizes.seconds)
        await chain.all_mined(answer["sent"])
        return {
            (*path, "sent"): answer["sent"] / answer["seconds"],
            (*path, "final"): answer["sent"] / (trio.current_time() - began),
        }


def _settings(peer: Peer, chain: World, sizes: Sizes) -> Mapping[str, object]:
    return {
        "url": chain.url,
        "chain_id": CHAIN_ID,
        "contract": str(chain.contract),
        "keys": [signer.key for signer in chain.signers],
        "seconds": sizes.seconds,
        "in_flight": sizes.in_flight,
        "presigned": round(sizes.presigned_per_second * min(sizes.seconds, sizes.presigned_seconds_max)),
        "gas": PRESIGNED_GAS,
        "fee_wei": PRESIGNED_FEE_WEI,
        **peer.settings,
    }
