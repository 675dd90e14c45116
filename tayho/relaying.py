"""What a relayer has besides its keys: the kind of its batches, and the coordinator that makes them of the line."""

from __future__ import annotations

from attrs import frozen

from rpc.errors import RpcError
from storage.errors import StorageError
from tayho.config import Settings
from tayho.coordination.module import Coordination
from tayho.intents.module import ROLE, Batcher, BatchKind, Line, Sight
from tayho.intents.types import BatchSettings, IntentDomain, Observe
from tayho.protocol.batches import ReferenceExecutor
from tayho.refusals import EnvironmentRefused
from tayho.resources import Resources


@frozen
class Relaying:
    """The parts of a relayer that is told which contracts it serves."""

    kind: BatchKind
    batcher: Batcher
    line: Line


async def open_relaying(
    settings: Settings, resources: Resources, coordination: Coordination, observe: Observe
) -> Relaying | None:
    """None for every other role, and for a relayer without contracts. Raises EnvironmentRefused.

    Refused is an executor that is none, or serves another protocol: what is sent to it would be lost.
    """
    protocol, executor, gas_max = settings.protocol_address, settings.batch_executor_address, settings.batch_max_gas
    if ROLE not in settings.roles or protocol is None or executor is None or gas_max is None:
        return None
    contract = ReferenceExecutor(executor, protocol)
    line = Line(resources.database, settings.chain_id, settings.environment)
    try:
        problem = await contract.problem(resources.reads)
        if problem is not None:
            raise EnvironmentRefused([problem])
        await line.register()
    except (RpcError, StorageError) as error:
        raise EnvironmentRefused([str(error)]) from error
    truth = resources.truth
    several = len(truth.voters) > 1
    batcher = Batcher(
        resources.database,
        coordination,
        IntentDomain(settings.chain_id, protocol),
        settings.environment,
        contract,
        Sight(
            resources.reads,
            truth.heads.head,
            agreed=truth.reads if several else None,
            reached=truth.reached if several else None,
        ),
        BatchSettings(
            window_milliseconds=settings.batch_window_milliseconds,
            items_max=settings.batch_max_items,
            gas_buffer_basis_points=settings.batch_gas_buffer_basis_points,
            block_share_basis_points=settings.batch_block_share_basis_points,
            gas_max=gas_max,
        ),
        observe,
    )
    return Relaying(BatchKind(resources.database, coordination, ReferenceExecutor), batcher, line)
