"""How found work becomes jobs. Pure."""

from __future__ import annotations

from rpc import methods
from rpc.reads import Call
from rpc.values import Header
from tayho.contracts.coordination import PRIORITY_DEFAULT, NewJob
from tayho.kernel.discovery import Work
from tayho.kinds import DiscoveringKind

_WORLD_DIGITS = 8


def genesis() -> Call[Header | None]:
    """The question for the block that tells one chain from another of the same id."""
    return methods.block_by_number(0)


def world_of(block: Header) -> str:
    """The chain's name in keys: a chain that was begun anew asks for its work anew."""
    return block.hash.hex()[:_WORLD_DIGITS]


def work_key(kind: DiscoveringKind, world: str, work: Work) -> str:
    """The work's own name among all jobs of a (chain, environment)."""
    return f"{kind.name}/{world}/{work.key}"


def job_of(kind: DiscoveringKind, key: str, occasion: int, work: Work) -> NewJob:
    """The job of the work's n-th occasion, counted from 1. Raises ArgumentRefused, DocumentRefused."""
    return NewJob(
        kind=kind.name,
        role=kind.role,
        idempotency_key=key if occasion == 1 else f"{key}~{occasion}",
        request=work.request,
        priority=PRIORITY_DEFAULT if work.priority is None else work.priority,
        limit_key=work.limit_key,
    )
