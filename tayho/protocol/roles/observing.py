"""Reading many feeds at once: a source that hangs costs its own deadline, and keeps no other market from its fact."""

from __future__ import annotations

from collections.abc import Sequence

import trio

from tayho.kernel.discovery import Finding
from tayho.protocol.sources.errors import SourceRefused
from tayho.protocol.sources.reading import FeedReader
from tayho.protocol.sources.types import Observation, Posted

# All markets that one deployment may have are through within a page's deadline, though every source hangs.
AT_ONCE_MAX = 64


async def observe(asked: Sequence[tuple[FeedReader, Posted | None]], now: int) -> list[Observation | Finding | None]:
    """What each feed tells at the chain's time, in the order asked; a finding where nothing of it is believed."""
    found: list[Observation | Finding | None] = [None] * len(asked)
    slots = trio.CapacityLimiter(AT_ONCE_MAX)

    async def one(place: int, reader: FeedReader, last: Posted | None) -> None:
        async with slots:
            try:
                found[place] = await reader.read(now, last)
            except SourceRefused as refused:
                found[place] = Finding(reader.feed.name, refused.name, str(refused))
            except Exception as error:  # noqa: BLE001 - one feed's fault, of whatever sort, is no other's
                # Its type alone: the message may quote the URL, and its key.
                found[place] = Finding(reader.feed.name, "failed", f"reading raised {type(error).__name__}")

    async with trio.open_nursery() as readings:
        for place, (reader, last) in enumerate(asked):
            readings.start_soon(one, place, reader, last)
    return found


def findings_in(found: Sequence[Observation | Finding | None]) -> tuple[Finding, ...]:
    """What a person should know of a look."""
    return tuple(one for one in found if isinstance(one, Finding))
