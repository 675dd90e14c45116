"""Group commits that one bad item cannot spoil, and that a lost race only delays."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeVar

from storage.errors import Conflict, Refused, SerializationLost, StorageError

A = TypeVar("A")
R = TypeVar("R")

TRIES_MAX: Final = 5


async def again_if_lost(work: Callable[[], Awaitable[R]]) -> R:
    """Run a whole transaction again when PostgreSQL ended it to resolve a deadlock or a serialization failure.

    Raises:
        SerializationLost: it lost every time.
    """
    for _ in range(TRIES_MAX - 1):
        try:
            return await work()
        except SerializationLost:
            continue
    return await work()


def isolating(
    batch: Callable[[Sequence[A]], Awaitable[Sequence[R | Exception]]],
) -> Callable[[Sequence[A]], Awaitable[Sequence[R | Exception]]]:
    """The batch, where an item that PostgreSQL refuses fails alone: the others are then committed one by one.

    `batch` is one transaction: when it raises Refused or Conflict, nothing of it took effect.
    """

    async def run(items: Sequence[A]) -> Sequence[R | Exception]:
        try:
            return await again_if_lost(lambda: batch(items))
        except (Refused, Conflict) as error:
            if len(items) == 1:
                return [error]
        results: list[R | Exception] = []
        for item in items:
            try:
                results += await run([item])
            except StorageError as error:
                # Of this item alone: what the others committed before an outage stays committed, and they hear so.
                results.append(error)
        return results

    return run
