"""Budgets that all processes share: so many acts in each window of time, counted by Redis alone (INT-8)."""

from collections.abc import Sequence
from typing import Final, cast

from attrs import frozen

from storage.errors import StorageError
from storage.redis_client import RedisServer

# Redis's own clock, so that processes whose clocks differ share one window. A refused act is not counted: who keeps
# asking too early does not wait the longer for it.
_SCRIPT: Final = """
local now = tonumber(redis.call('TIME')[1])
local most, window, wanted = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local start = now - now % window
local held = redis.call('HMGET', KEYS[1], 'start', 'count')
local count = 0
if tonumber(held[1]) == start then count = tonumber(held[2]) end
local allowed = 0
if count + wanted <= most then
  count = count + wanted
  allowed = 1
  redis.call('HSET', KEYS[1], 'start', start, 'count', count)
  redis.call('EXPIRE', KEYS[1], window + 1)
end
return {allowed, most - count, start + window - now}
"""


@frozen
class Spent:
    """The answer to one act: whether it may happen, how many more may, and in how many seconds all may again."""

    allowed: bool
    remaining: int
    reset_seconds: int


class Budget:
    """At most `most` acts a window of `window_seconds` for each key, whoever counts them.

    A window begins at a multiple of its length, for all keys alike. In a cluster each key is a slot of its own.
    """

    def __init__(self, redis: RedisServer, *, prefix: str, name: str, most: int, window_seconds: int) -> None:
        if most < 1 or window_seconds < 1:
            raise ValueError("a budget allows something in some time")
        self._redis = redis
        self._prefix = f"{prefix}:budget:{name}"
        self.most = most
        self.window_seconds = window_seconds

    async def spend(self, key: str, wanted: int = 1) -> Spent:
        """Count so many acts of a key, all or none.

        Raises:
            QueueUnavailable, QueueRefused: Redis cannot be asked.
            ReplyLost: it may have counted them.
        """
        (spent,) = await self.spend_many([key], wanted)
        if isinstance(spent, StorageError):
            raise spent
        return spent

    async def spend_many(self, keys: Sequence[str], wanted: int = 1) -> list[Spent | StorageError]:
        """Count so many acts of each key, in order and in one exchange; a key that comes twice is counted twice.

        What Redis did not answer stands as its error.

        Raises:
            QueueUnavailable: nothing was counted.
        """
        calls = [("EVAL", _SCRIPT, 1, f"{self._prefix}:{key}", self.most, self.window_seconds, wanted) for key in keys]
        return [_spent(reply) for reply in await self._redis.ask(calls)]


def _spent(reply: object) -> Spent | StorageError:
    if isinstance(reply, StorageError):
        return reply
    allowed, remaining, reset_seconds = cast("list[int]", reply)
    return Spent(allowed == 1, remaining, reset_seconds)
