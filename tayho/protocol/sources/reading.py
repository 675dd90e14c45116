"""The port: what a feed tells now, if it is to be believed."""

from __future__ import annotations

from typing import Protocol

from tayho.kernel.markets import Feed, SourceSettings
from tayho.protocol.sources.answers import observation_of
from tayho.protocol.sources.bounds import refuse_unbelievable
from tayho.protocol.sources.json_file import JsonFile
from tayho.protocol.sources.types import Observation, Posted


class Source(Protocol):
    """What gives the bytes of an answer."""

    async def fetch(self) -> bytes:
        """The answer, bounded in size and time. Raises SourceRefused."""
        ...


class FeedReader:
    """One feed and its source."""

    def __init__(self, feed: Feed, source: Source | None = None) -> None:
        self.feed = feed
        self._source = source_of(feed.source) if source is None else source

    async def read(self, now: int, last: Posted | None = None) -> Observation | None:
        """What is believed at the chain's time `now`; None where there is nothing to tell. Raises SourceRefused."""
        observed = observation_of(await self._source.fetch(), self.feed.source, _recovered)
        if observed is not None:
            refuse_unbelievable(observed, self.feed.bounds, now, last)
        return observed


def source_of(settings: SourceSettings) -> Source:
    """The adapter for what the settings name. Raises EndpointUrlRefused."""
    if settings.is_file:
        return JsonFile(settings.location)
    # Taken where it is needed: who only enqueues loads every kind, and no HTTP client.
    from tayho.protocol.sources.http_json import HttpJson

    return HttpJson(settings.location, settings.certificates)


def _recovered(digest: bytes, recovery_bit: int, r: int, s: int) -> bytes:
    # As above: key cryptography is custody's, and costs a while to load.
    from tayho.custody.module import recovered

    return recovered(digest, recovery_bit, r, s)
