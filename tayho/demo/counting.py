"""Counting effects where they happened: in the chain's own event logs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from uuid import UUID

from attrs import frozen

from rpc import methods
from rpc.reads import Reads
from tayho.kernel.address import Address
from tayho.protocol import abi, artifacts
from tayho.protocol.counter import event_id, read_recorded


@frozen
class Effects:
    """How often each job took effect, and over what time."""

    effects: int
    duplicates: int
    lost: int
    chain_seconds: int


async def count_effects(reads: Reads, contract: Address, job_ids: Collection[UUID]) -> Effects:
    """Read every `Recorded` event of the contract. Raises RpcError."""
    head = await reads.ask(methods.block_number())
    topic = abi.event_topic(artifacts.load("Counter"), "Recorded")
    logs = await reads.ask(methods.logs((0, head), addresses=[contract.value], topics=[[topic]]))
    seen = Counter(read_recorded(log.topics, log.data).event_id for log in logs)
    wanted = {event_id(job_id) for job_id in job_ids}
    return Effects(
        effects=len(wanted & seen.keys()),
        # An event that belongs to no job is an effect nobody asked for: as bad as a second one.
        duplicates=sum(seen.values()) - len(wanted & seen.keys()),
        lost=len(wanted - seen.keys()),
        chain_seconds=await _seconds_between(reads, [log.block_number for log in logs]),
    )


async def _seconds_between(reads: Reads, block_numbers: Collection[int]) -> int:
    if not block_numbers:
        return 0
    first = await reads.ask(methods.block_by_number(min(block_numbers)))
    last = await reads.ask(methods.block_by_number(max(block_numbers)))
    return 0 if first is None or last is None else last.timestamp_seconds - first.timestamp_seconds
