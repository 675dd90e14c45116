"""Redis Cluster: each exchange goes to the node that owns its slot, and follows it when the slot moves.

What a node redirects it has not executed, so sending it to the node that it names repeats nothing. Everything else is
as on one server: a lost reply stays lost.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Any, Final, cast

from redis.crc import key_slot
from redis.exceptions import ConnectionError  # noqa: A004 - redis-py's

from storage.errors import ReplyLost
from storage.redis_carrier import Carrier, OneServer
from storage.redis_guides import Guides
from storage.redis_pools import new_pool
from storage.redis_url import Address, ClusterTarget, shown_address
from storage.redis_wire import Command, Exchange, Pool, Redirected

SLOTS: Final = 16_384
# How often one command is sent on before its slot counts as one that cannot be found.
REDIRECTS_MAX: Final = 5
_ASKING: Final[Command] = ("ASKING",)
_SCRIPTS: Final = frozenset({"EVAL", "EVALSHA"})


def slot_of(command: Command) -> int | None:
    """The slot of the command's first key; None for one without arguments. What is no key gets some slot or other."""
    at = 3 if command[0] in _SCRIPTS else 1
    if len(command) <= at:
        return None
    key = command[at]
    return key_slot(key if isinstance(key, bytes) else str(key).encode(errors="surrogateescape"), SLOTS)


def is_in_one_slot(beginning: str) -> bool:
    """Whether all keys with this beginning share a slot, because it holds a hash tag."""
    _, opening, rest = beginning.partition("{")
    tag, closing, _ = rest.partition("}")
    return bool(opening and closing and tag)


class SlotMap:
    """Which master owns which slot, as one of the nodes told it last. Forgotten as soon as it proves wrong."""

    def __init__(self, target: ClusterTarget) -> None:
        self._guides = Guides(target.nodes, target.settings)
        self._owners: Sequence[Address | None] = ()

    async def owner_of(self, slot: int | None) -> Address:
        """The slot's owner; any master for None. For asyncio.

        Raises:
            ConnectionError: no node answers, or none owns the slot.
        """
        owners = self._owners or await self._guides.ask(("CLUSTER", "SLOTS"), self._learn)
        owner = next(filter(None, owners), None) if slot is None else owners[slot]
        if owner is None:
            self.forget()
            raise ConnectionError(f"no node of the cluster owns slot {'0' if slot is None else slot}")
        return owner

    async def masters(self) -> list[Address]:
        """All owners of slots, asked anew. For asyncio. Raises ConnectionError."""
        await self._guides.ask(("CLUSTER", "SLOTS"), self._learn)
        known = sorted(self.known_masters())
        if not known:
            raise ConnectionError("no node of the cluster owns a slot")
        return known

    def known_masters(self) -> set[Address]:
        """All owners of slots, as far as they are known now."""
        return set(filter(None, self._owners))

    def forget(self) -> None:
        """Ask again, and another node first, before anything else is sent."""
        if self._owners:
            self._owners = ()
            self._guides.doubt()

    async def _learn(self, node: Address, ranges: list[list[Any]]) -> Sequence[Address | None]:
        owners: list[Address | None] = [None] * SLOTS
        for first, last, master, *_ in ranges:
            # A node that does not know its own name leaves it to the asker, who has reached it.
            host, port = cast("str | None", master[0]) or node[0], int(master[1])
            owners[first : last + 1] = [(host, port)] * (last + 1 - first)
        self._owners = owners
        self._guides.learn(self.known_masters())
        return owners


class Cluster:
    """A carrier with a pool for each node that it was led to. Several of one cluster share the map."""

    def __init__(
        self, slots: SlotMap, settings: Mapping[str, Any], *, connections_max: int, connect_seconds: float
    ) -> None:
        self._slots = slots
        self._settings = settings
        self._connections_max = connections_max
        self._connect_seconds = connect_seconds
        # Of a node that left only the empty pool stays.
        self._pools: dict[Address, Pool] = {}

    async def carry(self, exchange: Exchange) -> None:
        """As Carrier. All commands of an exchange are taken to be for the slot of the first; others are redirected."""
        node = await self._slots.owner_of(slot_of(exchange.commands[0]))
        try:
            await exchange.run(await self._pool_to(node))
            if exchange.is_redirected:
                await self._follow(exchange, node)
        except BaseException:
            # Cut off by the deadline, too: a node that does not answer may have been replaced.
            self._slots.forget()
            raise
        if exchange.is_deposed:
            self._slots.forget()

    async def masters(self) -> Sequence[tuple[str, Carrier]]:
        """As Carrier."""
        masters = await self._slots.masters()
        return [(shown_address(node), OneServer(await self._pool_to(node), shown_address(node))) for node in masters]

    async def aclose(self) -> None:
        """As Carrier."""
        async with AsyncExitStack() as all_of_them:
            for pool in self._pools.values():
                all_of_them.push_async_callback(pool.aclose)

    async def _follow(self, exchange: Exchange, node: Address) -> None:
        """Send the redirected commands, and no others, where they belong; what is not executed in the end stays so."""
        said_by = dict.fromkeys(range(len(exchange.replies)), node)
        for _ in range(REDIRECTS_MAX):
            parts: dict[tuple[Address, bool], list[int]] = defaultdict(list)
            for at, reply in enumerate(exchange.replies):
                if isinstance(reply, Redirected):
                    parts[(reply.host or said_by[at][0], reply.port), reply.is_asking].append(at)
            if not parts:
                return
            for (target, is_asking), places in parts.items():
                if not is_asking:
                    self._slots.forget()
                said_by.update(dict.fromkeys(places, target))
                await self._send_on(exchange, places, target, is_asking=is_asking)

    async def _send_on(self, exchange: Exchange, places: Sequence[int], target: Address, *, is_asking: bool) -> None:
        """Send these commands to the target, in their order, and put its replies in their places."""
        commands = [exchange.commands[at] for at in places]
        again = Exchange([each for command in commands for each in (_ASKING, command)] if is_asking else commands)
        try:
            await again.run(await self._pool_to(target))
        finally:
            # Also if it was cut off: what was sent may be executed by now, and must not pass for what was not.
            replies = again.replies[1::2] if is_asking else again.replies
            lost = ReplyLost(f"Redis at {shown_address(target)}, to which a command was redirected, did not answer it.")
            for number, at in enumerate(places if again.sent else ()):
                exchange.replies[at] = replies[number] if number < len(replies) else lost
            exchange.is_deposed |= again.is_deposed

    async def _pool_to(self, node: Address) -> Pool:
        pool = self._pools.get(node)
        if pool is not None:
            return pool
        # Where a node is new, others may have left: nothing shall keep connections to them open.
        masters = self._slots.known_masters()
        for known, unused in tuple(self._pools.items()):
            if masters and known not in masters:
                await unused.disconnect(inuse_connections=False)
        settings = {**self._settings, "host": node[0], "port": node[1]}
        new = new_pool(settings, connections_max=self._connections_max, connect_seconds=self._connect_seconds)
        return self._pools.setdefault(node, new)
