"""Taking deliveries out of a BullMQ queue: a wait that may be cut off at any time, and a fetch that may not."""

import time
from collections.abc import Sequence
from typing import Final
from uuid import uuid4

import trio
from attrs import frozen

from storage.bullmq_records import QueueView, delivery_of
from storage.bullmq_scripts import Conversation, converse
from storage.errors import QueueUnavailable, ReplyLost, StorageError
from storage.holding import Holding
from storage.records import Delivery
from storage.redis_client import RedisServer
from storage.unanswered import UnansweredFetches

# A connection is not left to block longer than BullMQ leaves its own (worker.py, maximumBlockTimeout).
WAIT_SECONDS_MAX: Final = 10.0
# Redis before 7.0.8 may treat a shorter block as for ever.
BLOCK_SECONDS_MIN: Final = 0.01
# Fetch scripts in one round trip: Redis serves nobody else meanwhile.
ROUND_MAX: Final = 256


@frozen
class _Round:
    """What one round of fetch scripts brought."""

    deliveries: Sequence[Delivery]
    # Why a part of them brought nothing; a ReplyLost means that it may have taken more than is known.
    trouble: StorageError | None


class Intake:
    """One queue's way in. Several tasks may wait and fetch at once."""

    def __init__(self, server: RedisServer, view: QueueView, holding: Holding) -> None:
        self._server = server
        self._view = view
        self._holding = holding
        self._unanswered = UnansweredFetches(remember_seconds=view.lock_milliseconds / 1000)
        # How many records the next round asks for: each script that finds none costs as much as one that finds one.
        self._round_size = 1
        # When the earliest delayed record is due, in wall-clock milliseconds as BullMQ's scores; None if none is known.
        self._due_at: float | None = None
        # Redis may have popped the marker into a reply that nobody read: the next wait must not block.
        self._woken = False

    async def wait(self, seconds: float) -> bool:
        """As DeliveryQueue.wait."""
        deadline = trio.current_time() + min(seconds, WAIT_SECONDS_MAX)
        while True:
            if self._woken or self._seconds_to_due() <= 0:
                # Before the wake-up is spent: a caller cancelled here has not been told of it.
                await trio.lowlevel.checkpoint()
                self._woken, self._due_at = False, None
                return True
            left = deadline - trio.current_time()
            if left <= 0:
                await trio.lowlevel.checkpoint()
                return False
            due_at = await self._popped_marker(max(BLOCK_SECONDS_MIN, min(left, self._seconds_to_due())))
            if due_at is not None:
                self._due_at = due_at if self._due_at is None else min(self._due_at, due_at)

    async def fetch(self, count: int) -> list[Delivery]:
        """As DeliveryQueue.fetch, without its shield.

        Raises:
            QueueUnavailable, ReplyLost, QueueRefused: nothing was taken that could be returned.
        """
        taken = await self._found_again(count)
        trouble: StorageError | None = None
        while len(taken) < count and trouble is None:
            asked = min(self._round_size, count - len(taken))
            brought = await self._round(asked)
            taken += brought.deliveries
            trouble = brought.trouble
            if len(brought.deliveries) < asked:
                # The queue is empty now. As many may come again until the next fetch.
                self._round_size = max(1, len(brought.deliveries))
                break
            self._round_size = min(2 * self._round_size, ROUND_MAX)
        if not taken and isinstance(trouble, ReplyLost):
            taken = await self._found_again(count)
        if not taken and trouble is not None:
            raise trouble
        return taken

    async def _round(self, count: int) -> _Round:
        """Run `count` fetch scripts at once, each under a token of its own. What any of them took is not lost here."""
        tokens = [uuid4().hex for _ in range(count)]
        lock = {"lockDuration": self._view.lock_milliseconds}
        calls = [Conversation(self._view.backend.moveToActive(token, lock)) for token in tokens]
        try:
            outcomes = await converse(self._server, calls)
        except QueueUnavailable as error:
            return _Round([], error)
        except BaseException:
            self._unanswered.add(tokens, now=trio.current_time())
            raise
        deliveries: list[Delivery] = []
        trouble: StorageError | None = None
        for token, outcome in zip(tokens, outcomes, strict=True):
            if isinstance(outcome, ReplyLost):
                self._unanswered.add([token], now=trio.current_time())
            if isinstance(outcome, StorageError):
                trouble = trouble or outcome
                continue
            fields, identifier, limited_milliseconds, due_at = outcome
            if fields:
                deliveries.append(delivery_of(identifier, token, fields))
            else:
                self._due_at = _earliest(limited_milliseconds, due_at)
        return _Round(deliveries, trouble)

    async def _found_again(self, count: int) -> list[Delivery]:
        """What earlier rounds took without our knowing, up to `count`."""
        due = self._unanswered.take_due(count, now=trio.current_time())
        if not due:
            return []
        try:
            found = await self._holding.locked_by(due.keys())
        except BaseException:
            self._unanswered.restore(due)
            raise
        self._unanswered.give_back(due, found={each.token for each in found}, now=trio.current_time())
        return found

    async def _popped_marker(self, seconds: float) -> float | None:
        """Block for the queue's marker; when the record that it announces is due (0: now), None if none came."""
        command = ("BZPOPMIN", self._view.backend.keys["marker"], f"{seconds:.3f}")
        try:
            popped = await self._server.block(command, seconds=seconds)
        except ReplyLost as error:
            self._woken = True
            raise QueueUnavailable(str(error)) from error
        except trio.Cancelled:
            self._woken = True
            raise
        return None if popped is None else float(popped[2])

    def _seconds_to_due(self) -> float:
        return float("inf") if self._due_at is None else self._due_at / 1000 - time.time()


def _earliest(limited_milliseconds: int | None, due_at: int | None) -> float | None:
    """When to look again although no marker comes: BullMQ sets none for the end of a rate limit."""
    limited_until = time.time() * 1000 + limited_milliseconds if limited_milliseconds else None
    return min((at for at in (limited_until, due_at) if at), default=None)
