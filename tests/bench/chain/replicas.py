"""tayho's replicas for this benchmark: real `tayho run` processes with their requests counted."""

from __future__ import annotations

import json
import secrets
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import trio
from attrs import define

from nursery.cleanup import finish
from tayho.protocol.counter import CounterRecord
from tests.bench.chain.replica import PROFILE, REPORT
from tests.bench.chain.sizes import Sizes
from tests.bench.chain.world import CHAIN_ID, World
from tests.bench.delivery.child import LOG_LINES_SHOWN, ROOT, ChildFailed
from tests.bench.delivery.services import Services

ENVIRONMENT = "bench"
STOP_SECONDS = 60
CONFIRMATIONS = 1


@define
class Replica:
    """One `tayho run`."""

    name: str
    process: trio.Process
    log: Path
    report: Path

    def check(self) -> None:
        """Raises ChildFailed if it has ended."""
        if self.process.poll() is not None:
            lines = self.log.read_text(errors="replace").splitlines()[-LOG_LINES_SHOWN:]
            raise ChildFailed("\n  ".join([f"{self.name} ended with code {self.process.returncode}:", *lines]))

    async def stop(self) -> Mapping[str, Any]:
        """Let it drain; what it took."""
        self.process.send_signal(signal.SIGTERM)
        with trio.fail_after(STOP_SECONDS):
            await self.process.wait()
        return json.loads(self.report.read_text(encoding="utf-8"))


@asynccontextmanager
async def replicas(
    count: int, lanes: int, url: str, chain: World, services: Services, sizes: Sizes
) -> AsyncIterator[Sequence[Replica]]:
    """So many replicas over the first `lanes` signers; they need a moment. None outlives the block."""
    environment = _environment(lanes, url, chain, services, sizes)
    async with AsyncExitStack() as running:
        yield [
            await running.enter_async_context(_started(f"replica-{number}", environment, services.folder, sizes))
            for number in range(count)
        ]


@asynccontextmanager
async def _started(name: str, environment: Mapping[str, str], folder: Path, sizes: Sizes) -> AsyncIterator[Replica]:
    unique = f"{name}-{secrets.token_hex(4)}"
    log, report = folder / f"{unique}.log", folder / f"{unique}.json"
    with log.open("wb") as out:
        process = await trio.lowlevel.open_process(
            [sys.executable, "-m", "tests.bench.chain.replica", "run", CounterRecord.role],
            env={**environment, "INSTANCE_ID": unique, REPORT: str(report), PROFILE: "1" if sizes.profile else ""},
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            cwd=ROOT,
        )
    try:
        yield Replica(name, process, log, report)
    finally:
        if process.poll() is None:
            process.kill()
        await finish(process.wait, seconds=5)


def _environment(lanes: int, url: str, chain: World, services: Services, sizes: Sizes) -> Mapping[str, str]:
    return {
        "PYTHONPATH": str(ROOT),
        "DATABASE_URL": url,
        "REDIS_URL": services.redis_url,
        "RPC_URL": chain.url,
        "CHAIN_ID": str(CHAIN_ID),
        "ENVIRONMENT": ENVIRONMENT,
        "SIGNER_KEYS": json.dumps({str(signer.address): signer.key for signer in chain.signers[:lanes]}),
        "TX_JOURNAL_KEYS": json.dumps({"bench": f"0x{secrets.token_hex(32)}"}),
        "TX_JOURNAL_ACTIVE_KEY_ID": "bench",
        "TX_MAX_FEE_PER_GAS_WEI": str(100 * 10**9),
        "TX_CONFIRMATIONS": str(CONFIRMATIONS),
        "TX_RECONCILE_SECONDS": "1",
        "SIGNER_LANE_DEPTH": str(sizes.depth[lanes]),
        "QUEUE_CONCURRENCY": str(sizes.concurrency),
        "HTTP_BIND": "127.0.0.1:0",
        "LOG_FORMAT": "json",
    }
