"""funding-oracle: posts the funding of each market and epoch."""

from __future__ import annotations

from tayho.kernel.markets import EpochFeed, Market
from tayho.protocol.roles.epoch_facts import EpochFacts


class PostFunding(EpochFacts):
    """`funding.post`: the rate of one market's epoch."""

    name: str = "funding.post"
    role: str = "funding-oracle"
    view_name = "funding"
    function = "postFunding"
    event = "FundingPosted"
    value_name = "rate"

    def feed_of(self, market: Market) -> EpochFeed | None:
        return market.funding
