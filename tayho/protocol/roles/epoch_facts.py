"""Facts that are posted once a market and epoch: what funding and depth have in common."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from attrs import frozen

from rpc.reads import Reads
from rpc.values import Receipt
from tayho.kernel.address import Address
from tayho.kernel.discovery import Discovered, Work
from tayho.kernel.jobs import Job, NotActionable
from tayho.kernel.json_document import Json
from tayho.kernel.markets import EpochFeed, Market
from tayho.kinds import Actionable, Call, Revalidation, Surroundings
from tayho.protocol.roles.epochs import epoch_at
from tayho.protocol.roles.kind import ProtocolKind, call_of, document_of, event_of, head_of, request_of, view, views
from tayho.protocol.roles.numbers import whole
from tayho.protocol.roles.observing import findings_in, observe
from tayho.protocol.sources.reading import FeedReader
from tayho.protocol.sources.types import Observation, Posted

# How many epochs back the last posted fact is looked for, to measure a step from.
EPOCHS_BACK = 8


@frozen
class FactRequest:
    """A fact of a market's epoch. It is signed while it is fresh, or found anew."""

    protocol: Address
    market: bytes
    epoch: int
    # As text: numbers of an int128 are more than other readers of JSON hold.
    value: str
    observed_at: int
    fresh_until: int


@frozen
class _Due:
    market: Market
    reader: FeedReader
    epoch: int
    last: Posted | None


class EpochFacts(ProtocolKind):
    """Posts the fact of the epoch that the chain's head lies in, if it is not posted yet."""

    # The contract's names: the view of what was posted, the function that posts, and its event with the value's name.
    view_name: str
    function: str
    event: str
    value_name: str

    def __init__(self) -> None:
        super().__init__()
        self._readers: Mapping[str, tuple[Market, FeedReader]] = {}

    def feed_of(self, market: Market) -> EpochFeed | None:
        """The feed that this kind posts."""
        raise NotImplementedError

    def prepare(self, surroundings: Surroundings) -> None:
        super().prepare(surroundings)
        feeds = {name: (market, self.feed_of(market)) for name, market in self.settings.markets.items()}
        self._readers = {name: (market, FeedReader(feed)) for name, (market, feed) in feeds.items() if feed is not None}

    async def discover(self, reads: Reads) -> Discovered:
        """The facts that are missing and whose sources are to be believed. Raises RpcError, ResultRefused."""
        protocol = self.settings.address
        if protocol is None or not self._readers:
            return Discovered()
        now = (await head_of(reads)).timestamp_seconds
        due = await self._due(reads, protocol, now)
        found = await observe([(one.reader, one.last) for one in due], now)
        work = tuple(
            self._work(protocol, one, observed)
            for one, observed in zip(due, found, strict=True)
            if isinstance(observed, Observation)
        )
        return Discovered(work, findings_in(found))

    async def revalidate(self, job: Job, reads: Reads) -> Revalidation:
        """Wanted while the fact is not posted and its observation is fresh. Raises RpcError, RequestRefused."""
        request = request_of(job, FactRequest)
        (is_posted, *_) = await view(reads, request.protocol, self.view_name, request.market, request.epoch)
        if is_posted:
            return NotActionable(f"epoch {request.epoch} has its {self.view_name}")
        now = (await head_of(reads)).timestamp_seconds
        if now > request.fresh_until:
            return NotActionable(f"the observation of {request.observed_at} was fresh until {request.fresh_until}")
        return Actionable()

    async def call(self, job: Job) -> Call:
        """Raises RequestRefused."""
        request = request_of(job, FactRequest)
        return await call_of(request.protocol, self.function, request.market, request.epoch, whole(request.value))

    def result_of(self, job: Job, receipt: Receipt) -> Json:
        """The value that stands on the chain. Raises ResultMissing."""
        request = request_of(job, FactRequest)
        event = event_of(receipt, request.protocol, self.event, market=request.market, epoch=request.epoch)
        return {"value": str(event[self.value_name])}

    async def _due(self, reads: Reads, protocol: Address, now: int) -> list[_Due]:
        """The feeds whose present epoch has no fact, each with the fact before it."""
        asked: list[tuple[Market, FeedReader, int]] = []
        for market, reader in self._readers.values():
            epoch = epoch_at(now, cast("EpochFeed", reader.feed).epoch_seconds)
            asked.extend((market, reader, epoch - back) for back in range(min(EPOCHS_BACK, epoch) + 1))
        facts = await views(
            reads, protocol, [(self.view_name, (market.market_id, epoch)) for market, _, epoch in asked]
        )
        due: dict[str, _Due] = {}
        for (market, reader, epoch), (is_posted, value, _) in zip(asked, facts, strict=True):
            first = epoch == epoch_at(now, cast("EpochFeed", reader.feed).epoch_seconds)
            known = due.get(market.name)
            if first and not is_posted:
                due[market.name] = _Due(market, reader, epoch, None)
            elif known is not None and known.last is None and is_posted:
                last = Posted(cast("int", value), known.epoch - epoch)
                due[market.name] = _Due(market, reader, known.epoch, last)
        return list(due.values())

    def _work(self, protocol: Address, due: _Due, observed: Observation) -> Work:
        request = FactRequest(
            protocol,
            due.market.market_id,
            due.epoch,
            str(observed.value),
            observed.observed_at,
            observed.observed_at + due.reader.feed.bounds.age_seconds_max,
        )
        return Work(f"{due.market.market_id.hex()}/{due.epoch}", document_of(request))
