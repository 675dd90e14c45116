"""Asking PostgreSQL until it answers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

import trio

from storage.errors import Conflict, Refused, StorageError

# A machine under load needs most of it.
TRIES_SECONDS = 60.0

T = TypeVar("T")


async def insist(work: Callable[[], Awaitable[T]]) -> T:
    """Do it again while PostgreSQL is away. What PostgreSQL refuses is an error of the test, or a find."""
    with trio.fail_after(TRIES_SECONDS):
        while True:
            try:
                return await work()
            except (Refused, Conflict):
                raise
            except StorageError:
                await trio.sleep(0.02)
