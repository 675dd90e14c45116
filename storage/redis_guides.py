"""Servers that know which server to go to: the sentinels of a master, or the nodes of a cluster."""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Final, TypeVar

from redis.exceptions import (
    ConnectionError,  # noqa: A004 - redis-py's
    RedisError,
)

from storage.redis_pools import new_connection
from storage.redis_url import Address, shown_address
from storage.redis_wire import Command, packed_command

# For each of connecting and answering. Far below the deadline of an exchange, so that one silent guide does not
# spend it.
GUIDE_SECONDS: Final = 1.0

T = TypeVar("T")


class Guides:
    """Asked one after the other, until what one says proves right. They share nothing and need no closing."""

    def __init__(self, addresses: Sequence[Address], settings: Mapping[str, Any]) -> None:
        self._settings = settings
        self._configured = tuple(addresses)
        # Whoever was right last comes first.
        self._order = list(addresses)

    async def ask(self, command: Command, heed: Callable[[Address, Any], Awaitable[T]]) -> T:
        """Do as a guide says: what `heed` made of its address and its answer. For asyncio.

        Raises:
            ConnectionError: none answered, or `heed` raised RedisError or OSError for every answer.
        """
        problems: list[str] = []
        for guide in tuple(self._order):
            # Last before it is asked: if the caller is cut off here, the next one begins with another guide.
            self._move(guide, to_front=False)
            try:
                heeded = await heed(guide, await self._answer(guide, command))
            except (RedisError, OSError) as error:
                problems.append(f"{shown_address(guide)}: {error}")
                continue
            self._move(guide, to_front=True)
            return heeded
        raise ConnectionError("; ".join(problems))

    def learn(self, addresses: Iterable[Address]) -> None:
        """These are guides too, and those learnt before no longer, unless they were configured."""
        known = dict.fromkeys([*self._configured, *addresses])
        self._order = [*(each for each in self._order if each in known), *(known.keys() - set(self._order))]

    def doubt(self) -> None:
        """What was said last has proved wrong: another is asked first."""
        self._order.append(self._order.pop(0))

    def _move(self, guide: Address, *, to_front: bool) -> None:
        # It may have been forgotten while it was asked.
        if guide in self._order:
            self._order.remove(guide)
            self._order.insert(0 if to_front else len(self._order), guide)

    async def _answer(self, guide: Address, command: Command) -> Any:
        connection = new_connection(self._settings, guide, seconds=GUIDE_SECONDS)
        try:
            await connection.connect()
            await connection.send_packed_command([packed_command(command)], check_health=False)
            return await connection.read_response()
        finally:
            await connection.disconnect(nowait=True)
