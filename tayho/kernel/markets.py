"""What the roles of the reference protocol are told of its markets: where each fact comes from, and what is believed.

Numbers are integers in the contract's unit. The texts they were read from are in docs/roles.md.
"""

from __future__ import annotations

from collections.abc import Mapping

from attrs import field, frozen

from tayho.kernel.address import Address

# Facts are int128 on the chain.
FACT_MIN, FACT_MAX = -(2**127), 2**127 - 1


@frozen(kw_only=True)
class SourceSettings:
    """Where an answer comes from, where in it the number stands, and whose word it is."""

    # An http or https URL, or the absolute path of a file. It may carry a key.
    location: str = field(repr=False)
    # JSON pointers (RFC 6901) to the value, the time of its observation, and what it is about.
    value_at: str
    timestamp_at: str
    subject_at: str | None = None
    # What must stand at `subject_at`, so that one market's answer is never taken for another's.
    subject: str | None = None
    # Of the value: 18 reads "0.5" as 5 * 10^17.
    decimals: int = 0
    # Units of the timestamp in one second: 1, or 1000 for milliseconds.
    timestamp_units: int = 1
    # Who signs the answer (EIP-191), or which certificates the server may show (SHA-256).
    signer: Address | None = None
    certificates: tuple[bytes, ...] = ()

    @property
    def is_file(self) -> bool:
        return self.location.startswith("/")


@frozen(kw_only=True)
class Bounds:
    """What is believed of a source. Whatever is outside makes no transaction."""

    # Invariant: FACT_MIN <= minimum <= maximum <= FACT_MAX.
    minimum: int
    maximum: int
    # Seconds between the observation and the chain's head, and how far the observation may be ahead of it.
    age_seconds_max: int
    ahead_seconds_max: int = 60
    # The greatest difference from the fact posted last, for each epoch since. None lets any step pass.
    change_max: int | None = None


@frozen(kw_only=True)
class Feed:
    """One fact of a market: its source, and what is believed of it."""

    # As in ETH-USD/funding: the name in findings and logs.
    name: str
    source: SourceSettings
    bounds: Bounds


@frozen(kw_only=True)
class EpochFeed(Feed):
    """A fact that is posted once an epoch. Epochs are counted from 1970-01-01T00:00:00Z by the chain's clock."""

    epoch_seconds: int


@frozen(kw_only=True)
class Guard(EpochFeed):
    """When a market is paused: its fact is below the floor or above the ceiling. At most one pause an epoch."""

    floor: int | None = None
    ceiling: int | None = None


@frozen(kw_only=True)
class Market:
    """A market and the facts that are told of it; None for those that nobody tells."""

    name: str
    market_id: bytes
    funding: EpochFeed | None = None
    depth: EpochFeed | None = None
    resolution: Feed | None = None
    guard: Guard | None = None


@frozen(kw_only=True)
class ProtocolSettings:
    """The protocol that this deployment serves. Without an address its kinds discover nothing."""

    address: Address | None = None
    markets: Mapping[str, Market] = field(factory=dict[str, Market], repr=False)
    treasury: Address | None = None
    revenue_epoch_seconds: int = 86_400
