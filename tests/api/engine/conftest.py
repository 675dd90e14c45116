"""A line of intents and a replica of the engine over it; the chain's word is what the test says."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from storage.redis_client import RedisServer, open_redis
from tests.api.engine.replicas import Replica, replica
from tests.intents.conftest import DOMAIN, Line, line, plane

__all__ = ["line", "plane"]


@pytest.fixture
async def redis(redis_url: str, bridge: None) -> AsyncIterator[RedisServer]:
    async with open_redis(redis_url, command_seconds=30) as opened:
        yield opened


@pytest.fixture
async def engine(line: Line, redis: RedisServer) -> AsyncIterator[Replica]:
    async with replica(line.intents, DOMAIN, redis) as running:
        yield running
