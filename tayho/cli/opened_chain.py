"""What an act needs open that rests on the chain: the database, and a majority of RPC_READ_URLS."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from attrs import frozen

from rpc.pool import ReadPool
from rpc.truth import ChainTruth
from storage.database import Database
from storage.delivery import DeliveryQueue
from tayho.cli.opened import opened_database
from tayho.config import Settings, load_settings
from tayho.coordination.module import Coordination
from tayho.coordination.types import WorkerSettings
from tayho.refusals import EnvironmentRefused
from tayho.transactions.types import TransactionSettings
from tayho.voters import truth_of, voter_problems


@frozen
class OpenedChain:
    """A database of the journal, and the chain as a majority has it."""

    settings: Settings
    database: Database
    coordination: Coordination
    truth: ChainTruth


@asynccontextmanager
async def opened_chain() -> AsyncGenerator[OpenedChain]:
    """Raises ConfigurationRefused, StoreUnavailable, EnvironmentRefused where the endpoints cannot decide anything."""
    settings = load_settings(os.environ, ())
    if not settings.rpc_read_urls:
        raise EnvironmentRefused(["RPC_READ_URLS and RPC_URL are not set: there is no endpoint to ask"])
    async with (
        opened_database() as database,
        ReadPool.open(
            list(dict.fromkeys(settings.rpc_read_urls)),
            chain_id=settings.chain_id,
            cooldown_milliseconds=settings.rpc_circuit_cooldown_milliseconds,
        ) as pool,
    ):
        problems = await voter_problems(settings, settings.rpc_read_urls, pool.members)
        if problems:
            raise EnvironmentRefused(problems)
        yield OpenedChain(settings, database, coordination_over(database, settings), truth_of(pool.members))


def coordination_over(database: Database, settings: Settings) -> Coordination:
    """Coordination for acts and records: it delivers nothing."""
    workers = WorkerSettings(
        roles=(),
        concurrency=1,
        lock_seconds=settings.queue_lock_seconds,
        reconcile_seconds=settings.queue_reconcile_seconds,
        attempts_max=settings.job_max_attempts,
        poll_milliseconds=settings.outbox_poll_milliseconds,
    )
    return Coordination(database, _no_queue, settings.chain_id, settings.environment, workers)


def transaction_settings(settings: Settings, role: str) -> TransactionSettings:
    """The rules of the role's pool, as this environment has them."""
    return TransactionSettings(
        chain_id=settings.chain_id,
        environment=settings.environment,
        role=role,
        confirmations=settings.tx_confirmations,
        reconcile_seconds=settings.tx_reconcile_seconds,
        lane_depth=settings.signer_lane_depth,
        fee_wei_max=settings.tx_max_fee_per_gas_wei or 0,
        reorg_lookback_blocks=settings.tx_reorg_lookback_blocks,
        instance_id="tayho cli",
    )


def _no_queue(role: str) -> DeliveryQueue:
    raise LookupError(f"a command that delivers nothing asked for the queue of {role}")
