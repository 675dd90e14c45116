"""What the kinds that read feeds share: which markets have one, and who reads it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from attrs import frozen

from rpc.reads import Reads
from tayho.kernel.jobs import NotActionable
from tayho.kernel.markets import Feed, Market
from tayho.kinds import Actionable, Revalidation, Surroundings
from tayho.protocol.roles.kind import ProtocolKind, head_of
from tayho.protocol.sources.reading import FeedReader
from tayho.protocol.sources.types import Observation


@frozen
class Told:
    """A market, and the reader of the one feed of it that a kind is about."""

    market: Market
    reader: FeedReader

    def fresh_until(self, observed: Observation) -> int:
        """The last second of the chain in which the observation may be signed."""
        return observed.observed_at + self.reader.feed.bounds.age_seconds_max


class MarketKind(ProtocolKind, ABC):
    """A kind about one feed of each market that has it."""

    def __init__(self) -> None:
        super().__init__()
        self.told: Sequence[Told] = ()

    @abstractmethod
    def feed_of(self, market: Market) -> Feed | None:
        """The feed that this kind is about; None where the market has none."""

    def prepare(self, surroundings: Surroundings) -> None:
        """Learn which markets have the feed."""
        super().prepare(surroundings)
        feeds = [(market, self.feed_of(market)) for market in self.settings.markets.values()]
        self.told = [Told(market, FeedReader(feed)) for market, feed in feeds if feed is not None]


async def while_fresh(reads: Reads, observed_at: int, fresh_until: int) -> Revalidation:
    """Wanted while the observation is fresh by the chain's clock. Raises RpcError."""
    if (await head_of(reads)).timestamp_seconds > fresh_until:
        return NotActionable(f"the observation of {observed_at} was fresh until {fresh_until}")
    return Actionable()
