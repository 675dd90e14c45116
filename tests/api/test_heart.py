"""The heart: what it tells of the loop, and of the readiness at a scrape."""

from __future__ import annotations

import trio

from tayho.api.heart import BEAT_SECONDS, Heart
from tayho.api.readiness import UNANSWERED, Readiness, Reason
from tests.api.probing import served


async def test_a_late_turn_is_told_by_how_much(autojump_clock: trio.testing.MockClock) -> None:
    """Goal: a loop that is kept is seen before it is stuck. Method: a clock that jumps over the time of the turn."""
    late: list[float] = []
    heart = Heart(late.append)
    async with trio.open_nursery() as tasks:
        tasks.start_soon(heart.beat)
        await trio.sleep(2.5 * BEAT_SECONDS)
        autojump_clock.jump(4 * BEAT_SECONDS)
        await trio.sleep(0.25 * BEAT_SECONDS)
        tasks.cancel_scope.cancel()
    assert [round(seconds, 6) for seconds in late] == [0, 0, 3.5]


async def test_a_scrape_tells_the_readiness_too() -> None:
    """Goal: readiness can be alerted on without a probe of its own. Method: a scrape of a process with a reason, and of
    one whose checks never answer."""
    told: list[Readiness] = []
    unready = Readiness((Reason("redis", "may evict"),))

    async def readiness() -> Readiness:
        await trio.lowlevel.checkpoint()
        return unready

    async with served(readiness=readiness, show=told.append) as face:
        assert (await face.ask("/metrics")).status == 200
    async with served(readiness=trio.sleep_forever, show=told.append) as face:
        assert (await face.ask("/metrics")).status == 200
    assert told == [unready, UNANSWERED]
