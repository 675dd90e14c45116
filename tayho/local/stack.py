"""Everything that tayho runs on, for as long as a block of code: `async with local_stack() as stack`."""

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import trio
from attrs import frozen

from nursery.groups import unwrapped
from tayho.local.anvil import Chain, anvil
from tayho.local.folder import throw_away_folder
from tayho.local.postgres import postgres
from tayho.local.process import Running
from tayho.local.redis import redis


@frozen
class LocalStack:
    database: Running
    queue: Running
    node: Running | None

    @property
    def database_url(self) -> str:
        return self.database.service.url

    @property
    def redis_url(self) -> str:
        return self.queue.service.url

    @property
    def rpc_url(self) -> str | None:
        """The HTTP URL of the EVM node; None where none was asked for."""
        return None if self.node is None else self.node.service.url

    async def watch(self) -> None:
        """Wait for ever; raises LocalProcessFailed when one of the servers has died."""
        with unwrapped():
            async with trio.open_nursery() as watches:
                for process in (self.database, self.queue, self.node):
                    if process is not None:
                        watches.start_soon(process.watch)


@asynccontextmanager
async def local_stack(
    *, chain: Chain | None = None, postgres_binaries: Path | None = None
) -> AsyncGenerator[LocalStack]:
    """Run a PostgreSQL, a Redis and, with `chain`, an EVM node; all of it is gone afterwards.

    Raises:
        ToolMissing: a program is not installed.
        LocalProcessFailed: one did not come up.
    """
    async with AsyncExitStack() as servers:
        folder = servers.enter_context(throw_away_folder())
        yield LocalStack(
            database=await servers.enter_async_context(postgres(folder, binaries=postgres_binaries)),
            queue=await servers.enter_async_context(redis(folder)),
            node=None if chain is None else await servers.enter_async_context(anvil(folder, chain)),
        )
