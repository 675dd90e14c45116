"""Facts that are posted once a market and epoch: what funding and depth have in common."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import cast

from attrs import frozen

from rpc.reads import Reads
from rpc.values import Receipt
from tayho.kernel.address import Address
from tayho.kernel.discovery import Discovered, Work
from tayho.kernel.jobs import Job, NotActionable
from tayho.kernel.json_document import Json
from tayho.kernel.markets import EpochFeed, Market
from tayho.kinds import Call, Revalidation
from tayho.protocol.roles.epochs import epoch_at
from tayho.protocol.roles.kind import call_of, document_of, event_of, head_of, request_of, view, views
from tayho.protocol.roles.market_kind import MarketKind, Told, while_fresh
from tayho.protocol.roles.numbers import whole
from tayho.protocol.roles.observing import findings_in, observe
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
    told: Told
    epoch: int
    last: Posted | None


class EpochFacts(MarketKind):
    """Posts the fact of the epoch that the chain's head lies in, if it is not posted yet."""

    # The contract's names: the view of what was posted, the function that posts, and its event with the value's name.
    view_name: str
    function: str
    event: str
    value_name: str

    @abstractmethod
    def feed_of(self, market: Market) -> EpochFeed | None:
        """The feed that this kind posts."""

    async def discover(self, reads: Reads) -> Discovered:
        """The facts that are missing and whose sources are to be believed. Raises RpcError, ResultRefused."""
        protocol = self.settings.address
        if protocol is None or not self.told:
            return Discovered()
        now = (await head_of(reads)).timestamp_seconds
        due = await self._due(reads, protocol, now)
        found = await observe([(one.told.reader, one.last) for one in due], now)
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
        return await while_fresh(reads, request.observed_at, request.fresh_until)

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
        epochs = [_epochs_to_ask(one, now) for one in self.told]
        asked = [(one.market.market_id, epoch) for one, asks in zip(self.told, epochs, strict=True) for epoch in asks]
        facts = iter(await views(reads, protocol, [(self.view_name, one) for one in asked]))
        due: list[_Due] = []
        for one, asks in zip(self.told, epochs, strict=True):
            (is_posted, *_), *before = [next(facts) for _ in asks]
            if not is_posted:
                due.append(_Due(one, asks[0], _last_of(before)))
        return due

    def _work(self, protocol: Address, due: _Due, observed: Observation) -> Work:
        market_id = due.told.market.market_id
        request = FactRequest(
            protocol,
            market_id,
            due.epoch,
            str(observed.value),
            observed.observed_at,
            due.told.fresh_until(observed),
        )
        return Work(f"{market_id.hex()}/{due.epoch}", document_of(request))


def _epochs_to_ask(told: Told, now: int) -> list[int]:
    """The present epoch, and those before it that a step may be measured from."""
    epoch = epoch_at(now, cast("EpochFeed", told.reader.feed).epoch_seconds)
    return [epoch - back for back in range(min(EPOCHS_BACK, epoch) + 1)]


def _last_of(before: Sequence[tuple[object, ...]]) -> Posted | None:
    """The newest of the facts before the present epoch, the epoch before it first."""
    for epochs_ago, (is_posted, value, _) in enumerate(before, 1):
        if is_posted:
            return Posted(cast("int", value), epochs_ago)
    return None
