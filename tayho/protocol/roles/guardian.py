"""guardian: pauses a market whose source shows an anomaly."""

from __future__ import annotations

from typing import cast

from attrs import frozen

from rpc.reads import Reads
from rpc.values import Receipt
from tayho.kernel.address import Address
from tayho.kernel.discovery import Discovered, Work
from tayho.kernel.jobs import Job, NotActionable
from tayho.kernel.json_document import Json
from tayho.kernel.markets import Guard, Market
from tayho.kinds import Call, Revalidation
from tayho.protocol.roles.epochs import epoch_at
from tayho.protocol.roles.kind import call_of, document_of, event_of, head_of, request_of, view, views
from tayho.protocol.roles.market_kind import MarketKind, Told, while_fresh
from tayho.protocol.roles.observing import findings_in, observe
from tayho.protocol.sources.types import Observation

_REASON_BYTES = 32


@frozen
class PauseRequest:
    """A market, why it is to stop, and how long that is believed."""

    protocol: Address
    market: bytes
    reason: bytes
    # What was seen, for people.
    value: str
    observed_at: int
    fresh_until: int


class PauseMarket(MarketKind):
    """`market.pause`: one pause of one market.

    The key carries the epoch: a market that its owner resumes is paused again in the next one at the earliest, however
    long the anomaly lasts. A source that is silent or absurd pauses nothing: it is a finding.
    """

    name: str = "market.pause"
    role: str = "guardian"

    def feed_of(self, market: Market) -> Guard | None:
        return market.guard

    async def discover(self, reads: Reads) -> Discovered:
        """The markets that run though their sources show an anomaly. Raises RpcError, ResultRefused."""
        protocol = self.settings.address
        if protocol is None or not self.told:
            return Discovered()
        now = (await head_of(reads)).timestamp_seconds
        paused = await views(reads, protocol, [("isPaused", (one.market.market_id,)) for one in self.told])
        running = [one for one, (is_paused,) in zip(self.told, paused, strict=True) if not is_paused]
        found = await observe([(one.reader, None) for one in running], now)
        work = [
            _work(protocol, one, observed, now)
            for one, observed in zip(running, found, strict=True)
            if isinstance(observed, Observation)
        ]
        return Discovered(tuple(one for one in work if one is not None), findings_in(found))

    async def revalidate(self, job: Job, reads: Reads) -> Revalidation:
        """Wanted while the market runs and the observation is fresh. Raises RpcError, RequestRefused."""
        request = request_of(job, PauseRequest)
        (is_paused,) = await view(reads, request.protocol, "isPaused", request.market)
        if is_paused:
            return NotActionable("the market is paused")
        return await while_fresh(reads, request.observed_at, request.fresh_until)

    async def call(self, job: Job) -> Call:
        """Raises RequestRefused."""
        request = request_of(job, PauseRequest)
        return await call_of(request.protocol, "pauseMarket", request.market, request.reason)

    def result_of(self, job: Job, receipt: Receipt) -> Json:
        """The reason that stands on the chain. Raises ResultMissing."""
        request = request_of(job, PauseRequest)
        event = event_of(receipt, request.protocol, "MarketPaused", market=request.market)
        return {"reason": cast("bytes", event["reason"]).rstrip(b"\0").decode("utf-8", "replace")}


def _work(protocol: Address, told: Told, observed: Observation, now: int) -> Work | None:
    """The pause that the observation asks for, if it does."""
    guard = cast("Guard", told.reader.feed)
    reason = anomaly_of(observed, guard)
    if reason is None:
        return None
    request = PauseRequest(
        protocol,
        told.market.market_id,
        reason.encode().ljust(_REASON_BYTES, b"\0"),
        str(observed.value),
        observed.observed_at,
        told.fresh_until(observed),
    )
    key = f"{told.market.market_id.hex()}/{epoch_at(now, guard.epoch_seconds)}"
    return Work(key, document_of(request), priority=1)


def anomaly_of(observed: Observation, guard: Guard) -> str | None:
    """Why the market is to stop, in at most 32 characters; None where nothing is wrong. Pure."""
    if guard.floor is not None and observed.value < guard.floor:
        return "below the floor"
    if guard.ceiling is not None and observed.value > guard.ceiling:
        return "above the ceiling"
    return None
