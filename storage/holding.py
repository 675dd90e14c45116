"""Deliveries that this process holds: their locks extended, and those found again that it holds without knowing."""

from collections.abc import Collection, Sequence
from typing import Final, cast

from storage.bullmq_records import QueueView, delivery_of, is_text
from storage.bullmq_scripts import Conversation, converse
from storage.errors import QueueUnavailable, ReplyLost
from storage.records import Delivery
from storage.redis_client import RedisServer, repeatable

# Locks renewed, or looked up, by one command: Redis serves nobody else meanwhile.
LOCKS_MAX: Final = 1000


class Holding:
    """The locks of one queue's active records."""

    def __init__(self, server: RedisServer, view: QueueView) -> None:
        self._server = server
        self._view = view

    async def extend(self, held: Sequence[Delivery]) -> set[str]:
        """Lock the deliveries anew; the ids of those whose lock is lost for good. Shielded.

        Raises:
            QueueUnavailable: it is not known whether they were extended.
        """
        # msgpack, in which the ids travel, cannot carry what is no text; such a delivery is damaged in any case.
        lost = {each.delivery_id for each in held if not is_text(each.delivery_id)}
        renewable = [each for each in held if each.delivery_id not in lost]
        for start in range(0, len(renewable), LOCKS_MAX):
            part = renewable[start : start + LOCKS_MAX]
            ids, tokens = [each.delivery_id for each in part], [each.token for each in part]
            call = Conversation(self._view.backend.extendLocks(ids, tokens, self._view.lock_milliseconds))
            try:
                [outcome] = await self._server.shielded(converse, self._server, [call])
            except ReplyLost as error:
                raise QueueUnavailable(str(error)) from error
            lost.update(cast("list[str]", repeatable(outcome)))
        return lost

    async def locked_by(self, tokens: Collection[str]) -> list[Delivery]:
        """The active deliveries locked by one of these tokens, their locks extended anew.

        Raises:
            QueueUnavailable: no answer.
        """
        keys = self._view.backend.keys
        active = cast("list[str]", await self._server.ask_one(("LRANGE", keys["active"], 0, -1)))
        locks: dict[str, str] = {}
        for start in range(0, len(active), LOCKS_MAX):
            part = active[start : start + LOCKS_MAX]
            values = await self._server.ask_one(("MGET", *(f"{keys['']}{each}:lock" for each in part)))
            locks.update((each, value) for each, value in zip(part, values, strict=True) if value in tokens)
        if not locks:
            return []
        hashes = await self._server.ask([("HGETALL", keys[""] + each) for each in locks])
        deliveries = [
            delivery_of(identifier, token, _pairs(cast("list[str]", repeatable(fields))))
            for (identifier, token), fields in zip(locks.items(), hashes, strict=True)
        ]
        lost = await self.extend(deliveries)
        return [each for each in deliveries if each.delivery_id not in lost]


def _pairs(flat: Sequence[str]) -> dict[str, str]:
    """RESP2's hash reply, field after value after field, as a mapping."""
    return dict(zip(flat[::2], flat[1::2], strict=True))
