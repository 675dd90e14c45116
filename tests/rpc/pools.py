"""A pool over servers that misbehave on command."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import Any

from rpc.hedging import HedgeRules
from rpc.pool import ReadPool
from tests.rpc.faulty_server import CHAIN_ID, FaultyServer, faulty_server

# Hedges after a tenth of a second whatever was seen, so that a test knows when.
STEADY = HedgeRules(seconds_min=0.1, seconds_cold=0.1, seconds_max=0.1)
# Never, within any test.
NO_HEDGES = HedgeRules(extra_share=0, burst_max=0)


@asynccontextmanager
async def servers(count: int = 3) -> AsyncIterator[list[FaultyServer]]:
    """Honest servers, until told otherwise."""
    async with AsyncExitStack() as opened:
        yield [await opened.enter_async_context(faulty_server()) for _ in range(count)]


def pool_of(asked: Sequence[FaultyServer | str], **options: Any) -> AbstractAsyncContextManager[ReadPool]:
    """A pool that asks nothing of its own, unless the options say so."""
    settings: dict[str, Any] = {
        "chain_id": CHAIN_ID,
        "cooldown_milliseconds": 200,
        "deadline_seconds": 3,
        "head_poll_seconds": None,
        "hedges": STEADY,
    }
    return ReadPool.open([one if isinstance(one, str) else one.url for one in asked], **(settings | options))


def counts(asked: Sequence[FaultyServer], method: str) -> list[int]:
    """How often each server was asked."""
    return [server.asked(method) for server in asked]
