"""How a caller goes on when the connection breaks under its call."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

import trio

from storage.errors import CommitUnknown, QueueUnavailable, ReplyLost, StoreUnavailable

TRIES_MAX = 20
# What a caller may hear of a lost connection.
PROMISED = (CommitUnknown, QueueUnavailable, ReplyLost, StoreUnavailable)

R = TypeVar("R")


async def asked_again(ask: Callable[[], Awaitable[R]]) -> R:
    """The answer of a call that is made again, under the same keys, where the connection broke under it.

    Any other refusal than those promised for that leaves.
    """
    for _ in range(TRIES_MAX):
        try:
            return await ask()
        except PROMISED:
            await trio.sleep(0.02)
    return await ask()
