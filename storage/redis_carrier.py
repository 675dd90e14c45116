"""The way of an exchange to the server that does its work."""

from collections.abc import Awaitable, Sequence
from typing import Protocol

from storage.redis_wire import Exchange, Pool


class Carrier(Protocol):
    """How exchanges reach Redis: on one server, or on those of a cluster."""

    def carry(self, exchange: Exchange) -> Awaitable[None]:
        """Run the exchange where it belongs. For asyncio.

        Raises:
            RedisError, OSError: as Exchange.run, whose outcome then tells what is known.
        """
        ...

    async def masters(self) -> Sequence[tuple[str, "Carrier"]]:
        """Every server that must be fit for the work, named for messages, and the way to it alone. For asyncio.

        Raises:
            RedisError, OSError: they cannot be known now.
        """
        ...

    async def aclose(self) -> None:
        """Close every connection. For asyncio."""
        ...


class OneServer:
    """Every exchange over one pool."""

    def __init__(self, pool: Pool, shown: str) -> None:
        self._pool = pool
        self._shown = shown

    def carry(self, exchange: Exchange) -> Awaitable[None]:
        """As Carrier."""
        return exchange.run(self._pool)

    async def masters(self) -> Sequence[tuple[str, Carrier]]:
        """As Carrier: itself."""
        return [(self._shown, self)]

    async def aclose(self) -> None:
        """As Carrier."""
        await self._pool.aclose()
