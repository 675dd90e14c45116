"""The fleet of the demo: which processes, and what each is told."""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from pathlib import Path

from attrs import frozen

from tayho.demo.fleet import Fleet
from tayho.demo.markets import REVENUE_EPOCH_SECONDS, write_facts
from tayho.demo.types import DemoPlan
from tayho.demo.world import World
from tayho.local.development import DEPLOYER
from tayho.local.process import free_port
from tayho.local.stack import LocalStack

CHAIN_ID = 31337
ENVIRONMENT = "demo"
CONFIRMATIONS = 2
ENGINES = 2
ENGINE = "engine"
RELAYER = "relayer"
# A block of the demo's chain holds thirty million.
BATCH_GAS_MAX = 12_000_000
GWEI = 10**9


@frozen
class Deployment:
    """What all processes are told, and what the signing ones besides."""

    world: World
    common: Mapping[str, str]
    signing: Mapping[str, str]

    @property
    def roles(self) -> list[str]:
        """The signing roles, one to a process: a process serves one pool of signers."""
        return list(self.world.pools)

    def processes(self, plan: DemoPlan) -> dict[str, int]:
        """How many of each role."""
        return {ENGINE: ENGINES, **dict.fromkeys(self.roles, plan.replicas), RELAYER: plan.relayers}

    async def start(self, fleet: Fleet, plan: DemoPlan) -> list[str]:
        """Start every process. Returns the engines' addresses."""
        processes = self.processes(plan)
        ports = [free_port() for _ in range(ENGINES)]
        identity = f"0x{secrets.token_hex(32)}"
        for port in ports:
            bind = {"ENGINE_BIND": f"127.0.0.1:{port}", "ENGINE_IDENTITY_KEY": identity}
            await fleet.start(ENGINE, 1, {**bind, **_UNLIMITED})
        for role in self.roles:
            batches = _relayer(self.world) if role == RELAYER else dict[str, str]()
            await fleet.start(role, processes[role], {**self.signing, **self.world.pools[role], **batches})
        return [f"http://127.0.0.1:{port}" for port in ports]


def deployment(stack: LocalStack, world: World, folder: Path) -> Deployment:
    """The variables of all processes. The facts of the markets are files in `folder`."""
    return Deployment(
        world,
        common={
            "DATABASE_URL": stack.database_url,
            # Eighteen processes share one small server.
            "DATABASE_POOL_SIZE": "4",
            "REDIS_URL": stack.redis_url,
            "RPC_URL": str(stack.rpc_url),
            "CHAIN_ID": str(CHAIN_ID),
            "ENVIRONMENT": ENVIRONMENT,
            "PROTOCOL_ADDRESS": str(world.protocol),
            "QUEUE_LOCK_SECONDS": "5",
            "QUEUE_RECONCILE_SECONDS": "5",
            "HTTP_BIND": "127.0.0.1:0",
            "DRAIN_SECONDS": "20",
            "LOG_FORMAT": "json",
        },
        signing={
            "TX_JOURNAL_KEYS": json.dumps({"demo": f"0x{secrets.token_hex(32)}"}),
            "TX_JOURNAL_ACTIVE_KEY_ID": "demo",
            "TX_MAX_FEE_PER_GAS_WEI": str(100 * GWEI),
            "TX_CONFIRMATIONS": str(CONFIRMATIONS),
            "TX_RECONCILE_SECONDS": "1",
            "SCAN_SECONDS": "2",
            "PROTOCOL_MARKETS": json.dumps(write_facts(folder)),
            "PROTOCOL_TREASURY": str(DEPLOYER),
            "PROTOCOL_REVENUE_EPOCH_SECONDS": str(REVENUE_EPOCH_SECONDS),
        },
    )


def _relayer(world: World) -> Mapping[str, str]:
    return {"BATCH_EXECUTOR_ADDRESS": str(world.executor), "BATCH_MAX_GAS": str(BATCH_GAS_MAX)}


# All users of the demo come from one address.
_UNLIMITED = {"ENGINE_SUBMISSIONS_PER_MINUTE": "1000000", "ENGINE_STATUSES_PER_MINUTE": "1000000"}
