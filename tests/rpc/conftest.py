"""Servers to ask: one that misbehaves on command, and a real EVM node."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tayho.local.anvil import Chain, anvil
from tayho.local.process import running
from tests.rpc.faulty_server import FaultyServer, faulty_server
from tests.services import hardhat


@pytest.fixture
async def server() -> AsyncIterator[FaultyServer]:
    async with faulty_server() as running:
        yield running


@pytest.fixture(params=["anvil", "hardhat"])
async def node_url(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[str]:
    """A node at its genesis, of each implementation in turn."""
    async with anvil(tmp_path, Chain()) if request.param == "anvil" else running(hardhat.prepare(tmp_path)) as node:
        yield node.service.url
