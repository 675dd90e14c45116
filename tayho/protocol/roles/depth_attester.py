"""depth-attester: attests the depth of each market's book once an epoch."""

from __future__ import annotations

from tayho.kernel.markets import EpochFeed, Market
from tayho.protocol.roles.epoch_facts import EpochFacts


class AttestDepth(EpochFacts):
    """`depth.attest`: the depth of one market's epoch."""

    name: str = "depth.attest"
    role: str = "depth-attester"
    view_name = "depth"
    function = "attestDepth"
    event = "DepthAttested"
    value_name = "depth"

    def feed_of(self, market: Market) -> EpochFeed | None:
        return market.depth
