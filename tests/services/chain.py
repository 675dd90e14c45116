"""An EVM node for the session, with the reference counter on it."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import trio
from attrs import frozen

from rpc.endpoint import Endpoint
from tayho.kernel.address import Address
from tayho.local.anvil import Chain, prepare
from tayho.local.development import deploy
from tayho.protocol import artifacts
from tests.services.launch import Launched, launched

CHAIN_ID = 31337
BLOCK_SECONDS = 0.5


@frozen
class LocalChain:
    """A running node that makes a block every half second."""

    server: Launched
    contract: Address

    @property
    def url(self) -> str:
        return self.server.url


@contextmanager
def local_chain(block_seconds: float | None = BLOCK_SECONDS) -> Iterator[LocalChain]:
    """Run anvil and deploy the counter. With None it mines a block for each transaction."""
    with launched(partial(prepare, chain=Chain(chain_id=CHAIN_ID, block_seconds=block_seconds))) as server:
        yield LocalChain(server, trio.run(_deploy, server.url))


async def _deploy(url: str) -> Address:
    async with Endpoint.open(url, chain_id=CHAIN_ID) as node:
        with trio.fail_after(10):
            return await deploy(node, artifacts.load("Counter").bytecode)
