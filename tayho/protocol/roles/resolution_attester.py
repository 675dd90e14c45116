"""resolution-attester: attests how a market ended, once for ever."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import frozen

from rpc.reads import Reads
from rpc.values import Receipt
from tayho.kernel.address import Address
from tayho.kernel.discovery import Discovered, Work
from tayho.kernel.jobs import Job, NotActionable
from tayho.kernel.json_document import Json
from tayho.kernel.markets import Market
from tayho.kinds import Actionable, Call, Revalidation, Surroundings
from tayho.protocol.roles.kind import ProtocolKind, call_of, document_of, event_of, head_of, request_of, view, views
from tayho.protocol.roles.numbers import whole
from tayho.protocol.roles.observing import findings_in, observe
from tayho.protocol.sources.reading import FeedReader
from tayho.protocol.sources.types import Observation


@frozen
class ResolutionRequest:
    """How a market ended, by an observation that is signed while it is fresh."""

    protocol: Address
    market: bytes
    outcome: str
    observed_at: int
    fresh_until: int


class AttestResolution(ProtocolKind):
    """`resolution.attest`: the outcome of one market. A source that tells null says that it has not ended yet."""

    name: str = "resolution.attest"
    role: str = "resolution-attester"

    def __init__(self) -> None:
        super().__init__()
        self._readers: Mapping[str, tuple[Market, FeedReader]] = {}

    def prepare(self, surroundings: Surroundings) -> None:
        super().prepare(surroundings)
        markets = self.settings.markets
        self._readers = {
            name: (one, FeedReader(one.resolution)) for name, one in markets.items() if one.resolution is not None
        }

    async def discover(self, reads: Reads) -> Discovered:
        """The markets without an outcome whose sources tell one. Raises RpcError, ResultRefused."""
        protocol = self.settings.address
        if protocol is None or not self._readers:
            return Discovered()
        now = (await head_of(reads)).timestamp_seconds
        known = list(self._readers.values())
        facts = await views(reads, protocol, [("resolution", (market.market_id,)) for market, _ in known])
        due = [one for one, (is_posted, *_) in zip(known, facts, strict=True) if not is_posted]
        found = await observe([(reader, None) for _, reader in due], now)
        work: list[Work] = []
        for (market, reader), observed in zip(due, found, strict=True):
            if isinstance(observed, Observation):
                until = observed.observed_at + reader.feed.bounds.age_seconds_max
                request = ResolutionRequest(
                    protocol, market.market_id, str(observed.value), observed.observed_at, until
                )
                work.append(Work(market.market_id.hex(), document_of(request)))
        return Discovered(tuple(work), findings_in(found))

    async def revalidate(self, job: Job, reads: Reads) -> Revalidation:
        """Wanted while no outcome is attested and the observation is fresh. Raises RpcError, RequestRefused."""
        request = request_of(job, ResolutionRequest)
        (is_posted, *_) = await view(reads, request.protocol, "resolution", request.market)
        if is_posted:
            return NotActionable("the market is resolved")
        if (await head_of(reads)).timestamp_seconds > request.fresh_until:
            return NotActionable(f"the observation of {request.observed_at} was fresh until {request.fresh_until}")
        return Actionable()

    async def call(self, job: Job) -> Call:
        """Raises RequestRefused."""
        request = request_of(job, ResolutionRequest)
        return await call_of(request.protocol, "attestResolution", request.market, whole(request.outcome))

    def result_of(self, job: Job, receipt: Receipt) -> Json:
        """The outcome that stands on the chain. Raises ResultMissing."""
        request = request_of(job, ResolutionRequest)
        event = event_of(receipt, request.protocol, "MarketResolved", market=request.market)
        return {"outcome": str(event["outcome"])}
