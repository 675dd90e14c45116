"""Waits during a cleanup inside finish."""

from nursery.asyncio_bridge import run_asyncio
from nursery.cleanup import finish


async def use(connection) -> None:
    """Run, and close whatever happens."""
    try:
        await connection.run()
    except ValueError:
        await connection.note()
        raise
    finally:
        await finish(connection.close, seconds=5)
        await _close(connection)


async def _close(connection) -> None:
    async def close() -> None:
        await run_asyncio(_end, connection)

    await finish(close, seconds=5)


async def _end(connection) -> None:
    """An asyncio coroutine function."""
    try:
        await connection.run()
    finally:
        await connection.close()
