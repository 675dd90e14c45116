"""Fixtures of the crash suite."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from storage.database import Database
from tests.crash.world import World, world
from tests.services.chain import LocalChain


@pytest.fixture
async def crashing(
    database: Database, database_url: str, redis_url: str, chain: LocalChain, tmp_path: Path
) -> AsyncIterator[World]:
    """A world in which replicas can be started and killed."""
    async with world(database, database_url, redis_url, chain, tmp_path) as one:
        yield one
