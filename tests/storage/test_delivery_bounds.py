"""What a queue leaves in Redis does not grow with the number of jobs that went through it."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from storage.bullmq_records import Kept
from storage.records import Acknowledgement, Completion, Delivery, Failure
from tests.storage.delivery_plane import Plane, a_record, open_plane
from tests.waiting import until

pytestmark = pytest.mark.services

KEPT = Kept(count=50, age_seconds=3600)
JOBS, BATCH = 5_000, 250
# BullMQ trims its stream about here, whole nodes at a time.
EVENTS_MAX = 10_000 + 200
# The queue's own: meta, id, events, completed, failed, stalled-check, and what else has a fixed name.
OWN_KEYS_MAX = 12


async def test_what_ended_leaves_a_bounded_rest() -> None:
    """Goal: Redis, which may not evict, is not filled by what is over. Method: five thousand jobs, every tenth of which
    fails for good and every eleventh at first, go through a queue that keeps fifty of either end; keys, sets, events
    and memory are counted on the way and at the end."""
    async with open_plane(completed_kept=KEPT, failed_kept=KEPT) as plane:
        memory: list[int] = []
        for _ in range(JOBS // BATCH):
            await plane.queue.publish_many([a_record({"n": 1}, attempts=3) for _ in range(BATCH)])
            await work_off(plane)
            memory.append(await used_memory(plane))
        assert await plane.queue.recover_stalled() == []
        counts = await plane.queue.counts()
        assert counts.pop("completed") == KEPT.count
        assert counts.pop("failed") == KEPT.count
        assert set(counts.values()) == {0}
        assert await plane.raw("DBSIZE") <= 2 * KEPT.count + OWN_KEYS_MAX
        assert await plane.raw("XLEN", plane.key("events")) <= EVENTS_MAX
        assert await plane.raw("EXISTS", plane.key("stalled")) == 0
        assert await plane.raw("KEYS", "*:lock") == []
        # The stream is full after half of them; from there on nothing grows.
        half = len(memory) // 2
        assert max(memory[half:]) <= 1.1 * max(memory[:half])


async def work_off(plane: Plane) -> None:
    """Take and end all that there is, until nothing waits for another try."""

    async def nothing_left() -> bool:
        while taken := await plane.queue.fetch(BATCH):
            await plane.queue.extend(taken)
            await plane.queue.acknowledge_many(list(ends_of(taken)))
        counts = await plane.queue.counts()
        return not any(counts[name] for name in ("waiting", "prioritized", "delayed", "active"))

    await until(nothing_left, seconds=30, what="every job to end")


def ends_of(taken: Sequence[Delivery]) -> list[Acknowledgement]:
    ends: list[Acknowledgement] = []
    for number, delivery in enumerate(taken):
        if number % 10 == 0:
            ends.append(Failure(delivery, "for good", retry=False))
        elif number % 11 == 0 and delivery.attempts_made == 0:
            ends.append(Failure(delivery, "at first", retry=True))
        else:
            ends.append(Completion(delivery, {"result": number}))
    return ends


async def used_memory(plane: Plane) -> int:
    text = await plane.raw("INFO", "memory")
    text = text.decode() if isinstance(text, bytes) else text
    return int(text.partition("used_memory:")[2].split()[0])
