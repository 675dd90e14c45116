"""The composition root: opens what the process stands on, hands it to the contexts, runs their tasks in one nursery."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from importlib.metadata import version

import structlog
import trio

from nursery.asyncio_bridge import open_bridge
from nursery.collection import calm_collector
from nursery.drain import Drain
from nursery.signals import watch_signals
from nursery.supervise import supervise
from rpc.errors import RpcError
from storage.errors import StorageError
from storage.migrations import migrate
from tayho.config import Settings
from tayho.coordination.module import Coordination
from tayho.coordination.types import Handler, WorkerSettings
from tayho.custody.module import Custody, SigningPolicy, open_custody
from tayho.discovery.module import Discovery
from tayho.kernel.jobs import Attempt, Job, Outcome
from tayho.kernel.markets import ProtocolSettings
from tayho.kinds import DiscoveringKind, Kind, OnChainKind, Surroundings, prepare
from tayho.local.anvil import Chain
from tayho.local.stack import local_stack
from tayho.observability import Metrics
from tayho.parts import Face, Parts, Served
from tayho.plugins import declared_by
from tayho.refusals import EnvironmentRefused
from tayho.relaying import open_relaying
from tayho.resources import Resources, Urls, open_resources
from tayho.transactions.module import LaneTaken, Transactions
from tayho.transactions.types import TransactionSettings

log = structlog.get_logger("tayho.daemon")


async def run(settings: Settings, kinds: Sequence[Kind], face: Face) -> None:
    """Run the process until it has drained; `face` is what it shows to the outside.

    Raises EnvironmentRefused before anything is begun, TaskCrashed after.
    """
    calm_collector()
    metrics = Metrics()
    metrics.begin()
    async with (
        open_bridge(),
        _world(settings) as urls,
        open_resources(
            settings, urls, observe_rpc=metrics.observe_rpc, observe_hedge=metrics.observe_hedge
        ) as resources,
    ):
        drain = Drain(seconds=settings.drain_seconds)
        coordination = Coordination(
            resources.database,
            resources.queue_of,
            settings.chain_id,
            settings.environment,
            _worker_settings(settings),
            metrics.observe_delivery,
        )
        with _custody(settings) as custody:
            relaying = await open_relaying(settings, resources, coordination, metrics.intents.observe)
            if relaying is not None:
                kinds = [*kinds, relaying.kind]
            transactions = await _transactions(settings, resources, coordination, custody, metrics, kinds)
            parts = Parts(settings, resources, coordination, transactions, metrics, drain, relaying)
            ours = [kind for kind in kinds if kind.role in settings.roles]
            _prepare(ours, settings)
            handlers = _handlers(ours, parts)
            async with face(parts) as served:
                await _run_tasks(parts, handlers, ours, served)


async def _run_tasks(
    parts: Parts,
    handlers: Mapping[str, Handler],
    kinds: Sequence[Kind],
    served: Served,
) -> None:
    settings, coordination, drain = parts.settings, parts.coordination, parts.drain
    with trio.CancelScope() as running:

        async def work() -> None:
            await coordination.work(handlers, drain, settings.instance_id, version("tayho"))
            await served.ended()
            # Worker and face end last: reconciler, listener and HTTP serve until their handlers are through.
            running.cancel()

        tasks: dict[str, Callable[[], Awaitable[None]]] = {
            "signals": partial(watch_signals, drain, on_repeat=lambda name: log.info("draining_already", signal=name)),
            "http": served.serve,
            "publisher": partial(coordination.publish, drain),
            "listener": coordination.listen,
            "stalled": partial(coordination.recover_stalled, drain),
            "worker": work,
        }
        if settings.job_retention_days:
            tasks["retention"] = partial(coordination.retain, settings.job_retention_days, drain)
        if parts.transactions is not None:
            tasks["transactions"] = parts.transactions.run
        if parts.relaying is not None:
            tasks["batcher"] = partial(parts.relaying.batcher.run, drain)
        if declared := declared_by(kinds):
            tasks["scheduler"] = partial(coordination.schedule, declared, drain)
        if discovering := [kind for kind in kinds if isinstance(kind, DiscoveringKind)]:
            for kind in discovering:
                parts.metrics.scans.begin(kind.name)
            tasks["scanner"] = partial(_discovery(parts).scan, discovering, settings.scan_seconds, drain)
        log.info("started", roles=list(settings.roles), kinds=sorted(handlers), chain_id=settings.chain_id)
        await supervise(tasks)
    log.info("stopped", reason=drain.reason)


@asynccontextmanager
async def _world(settings: Settings) -> AsyncGenerator[Urls]:
    """Where everything is; in local mode a throw-away stack of the process's own, gone with it."""
    if settings.database_url is not None and settings.redis_url is not None and settings.rpc_url is not None:
        yield Urls(settings.database_url, settings.redis_url, settings.rpc_url, settings.rpc_read_urls)
        return
    chain = None if settings.rpc_url is not None else Chain(chain_id=settings.chain_id, block_seconds=1)
    async with local_stack(chain=chain) as stack:
        # The one schema that a process makes itself: nobody else can ever see this database.
        await migrate(stack.database_url)
        rpc_url = settings.rpc_url or str(stack.rpc_url)
        yield Urls(stack.database_url, stack.redis_url, rpc_url, settings.rpc_read_urls or (rpc_url,))


@contextmanager
def _custody(settings: Settings) -> Generator[Custody | None]:
    """The keys of a signing role; None for a role that signs nothing and holds none."""
    if settings.signer_keys is None or settings.journal_keys is None or settings.tx_max_fee_per_gas_wei is None:
        yield None
        return
    policy = SigningPolicy(frozenset({settings.chain_id}), settings.tx_max_fee_per_gas_wei)
    with open_custody(settings.signer_keys, settings.journal_keys, policy) as custody:
        yield custody


async def _transactions(
    settings: Settings,
    resources: Resources,
    coordination: Coordination,
    custody: Custody | None,
    metrics: Metrics,
    kinds: Sequence[Kind],
) -> Transactions | None:
    """The engine of a signing role, its lanes registered."""
    if custody is None or settings.signing_role is None or settings.tx_max_fee_per_gas_wei is None:
        return None
    transactions = Transactions(
        resources.database,
        coordination,
        custody,
        resources.reads,
        resources.truth,
        resources.writes,
        resources.writes.shown,
        TransactionSettings(
            chain_id=settings.chain_id,
            environment=settings.environment,
            role=settings.signing_role,
            confirmations=settings.tx_confirmations,
            reconcile_seconds=settings.tx_reconcile_seconds,
            lane_depth=settings.signer_lane_depth,
            fee_wei_max=settings.tx_max_fee_per_gas_wei,
            reorg_lookback_blocks=settings.tx_reorg_lookback_blocks,
            stuck_seconds=settings.tx_stuck_seconds,
            fee_bump_basis_points=settings.tx_fee_bump_basis_points,
            replacements_max=settings.tx_max_replacements,
            evidence_retention_days=settings.evidence_retention_days,
            instance_id=settings.instance_id,
        ),
        await custody.signers(),
        metrics.transactions.observe,
        metrics.transactions.observe_seconds,
        [kind for kind in kinds if isinstance(kind, OnChainKind) and kind.role == settings.signing_role],
    )
    try:
        await transactions.register()
    except (LaneTaken, RpcError, StorageError) as error:
        raise EnvironmentRefused([str(error)]) from error
    return transactions


def _prepare(kinds: Sequence[Kind], settings: Settings) -> None:
    """Tell each kind where it runs. Raises EnvironmentRefused with what each of them says against it."""
    protocol = ProtocolSettings(
        address=settings.protocol_address,
        markets=settings.protocol_markets,
        treasury=settings.protocol_treasury,
        revenue_epoch_seconds=settings.protocol_revenue_epoch_seconds,
    )
    problems: list[str] = []
    for kind in kinds:
        try:
            prepare(kind, Surroundings(settings.chain_id, settings.environment, protocol))
        except Exception as error:  # noqa: BLE001 - somebody else's code says why it cannot run here
            problems.append(f"the kind {kind.name!r} cannot run here: {type(error).__name__}: {error}")
    if problems:
        raise EnvironmentRefused(problems)


def _discovery(parts: Parts) -> Discovery:
    settings, resources = parts.settings, parts.resources
    return Discovery(
        resources.database,
        parts.coordination,
        settings.chain_id,
        settings.environment,
        settings.instance_id,
        resources.truth.reads,
        parts.metrics.scans.observe,
    )


def _handlers(kinds: Sequence[Kind], parts: Parts) -> dict[str, Handler]:
    """What runs each of these kinds."""
    return {
        kind.name: parts.metrics.watched(kind.name, _handler(kind, parts.resources, parts.transactions))
        for kind in kinds
    }


def _handler(kind: Kind, resources: Resources, transactions: Transactions | None) -> Handler:
    if isinstance(kind, OnChainKind):
        if transactions is None:
            raise EnvironmentRefused([f"the kind {kind.name!r} signs, and role {kind.role!r} holds no keys"])
        return partial(transactions.execute, kind)
    off_chain = kind

    async def run_off_chain(job: Job, attempt: Attempt) -> Outcome:
        del attempt  # Off chain, PostgreSQL's fence at the end of the attempt is all there is to hold.
        return await off_chain.run(job, resources.reads)

    return run_off_chain


def _worker_settings(settings: Settings) -> WorkerSettings:
    return WorkerSettings(
        roles=settings.roles,
        concurrency=settings.queue_concurrency,
        lock_seconds=settings.queue_lock_seconds,
        reconcile_seconds=settings.queue_reconcile_seconds,
        attempts_max=settings.job_max_attempts,
        poll_milliseconds=settings.outbox_poll_milliseconds,
    )
