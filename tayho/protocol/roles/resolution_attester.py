"""resolution-attester: attests how a market ended, once for ever."""

from __future__ import annotations

from attrs import frozen

from rpc.reads import Reads
from rpc.values import Receipt
from tayho.kernel.address import Address
from tayho.kernel.discovery import Discovered, Work
from tayho.kernel.jobs import Job, NotActionable
from tayho.kernel.json_document import Json
from tayho.kernel.markets import Feed, Market
from tayho.kinds import Call, Revalidation
from tayho.protocol.roles.kind import call_of, document_of, event_of, head_of, request_of, view, views
from tayho.protocol.roles.market_kind import MarketKind, Told, while_fresh
from tayho.protocol.roles.numbers import whole
from tayho.protocol.roles.observing import findings_in, observe
from tayho.protocol.sources.types import Observation


@frozen
class ResolutionRequest:
    """How a market ended, by an observation that is signed while it is fresh."""

    protocol: Address
    market: bytes
    outcome: str
    observed_at: int
    fresh_until: int


class AttestResolution(MarketKind):
    """`resolution.attest`: the outcome of one market. A source that tells null says that it has not ended yet."""

    name: str = "resolution.attest"
    role: str = "resolution-attester"

    def feed_of(self, market: Market) -> Feed | None:
        return market.resolution

    async def discover(self, reads: Reads) -> Discovered:
        """The markets without an outcome whose sources tell one. Raises RpcError, ResultRefused."""
        protocol = self.settings.address
        if protocol is None or not self.told:
            return Discovered()
        now = (await head_of(reads)).timestamp_seconds
        facts = await views(reads, protocol, [("resolution", (one.market.market_id,)) for one in self.told])
        due = [one for one, (is_posted, *_) in zip(self.told, facts, strict=True) if not is_posted]
        found = await observe([(one.reader, None) for one in due], now)
        work = tuple(
            _work(protocol, one, observed)
            for one, observed in zip(due, found, strict=True)
            if isinstance(observed, Observation)
        )
        return Discovered(work, findings_in(found))

    async def revalidate(self, job: Job, reads: Reads) -> Revalidation:
        """Wanted while no outcome is attested and the observation is fresh. Raises RpcError, RequestRefused."""
        request = request_of(job, ResolutionRequest)
        (is_posted, *_) = await view(reads, request.protocol, "resolution", request.market)
        if is_posted:
            return NotActionable("the market is resolved")
        return await while_fresh(reads, request.observed_at, request.fresh_until)

    async def call(self, job: Job) -> Call:
        """Raises RequestRefused."""
        request = request_of(job, ResolutionRequest)
        return await call_of(request.protocol, "attestResolution", request.market, whole(request.outcome))

    def result_of(self, job: Job, receipt: Receipt) -> Json:
        """The outcome that stands on the chain. Raises ResultMissing."""
        request = request_of(job, ResolutionRequest)
        event = event_of(receipt, request.protocol, "MarketResolved", market=request.market)
        return {"outcome": str(event["outcome"])}


def _work(protocol: Address, told: Told, observed: Observation) -> Work:
    market_id = told.market.market_id
    request = ResolutionRequest(
        protocol, market_id, str(observed.value), observed.observed_at, told.fresh_until(observed)
    )
    return Work(market_id.hex(), document_of(request))
