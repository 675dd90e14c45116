"""Servers to ask: one that misbehaves on command, and a real EVM node."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tayho.local.anvil import Chain, anvil
from tests.rpc.faulty_server import FaultyServer, faulty_server


@pytest.fixture
async def server() -> AsyncIterator[FaultyServer]:
    async with faulty_server() as running:
        yield running


@pytest.fixture
async def anvil_url(tmp_path: Path) -> AsyncIterator[str]:
    async with anvil(tmp_path, Chain()) as node:
        yield node.service.url
