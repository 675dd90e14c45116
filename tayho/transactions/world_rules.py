"""Is this the world that the journal is about: pure (TX-14)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from attrs import field, frozen

from tayho.kernel.address import Address
from tayho.kernel.json_document import Json
from tayho.transactions.types import HaltKind


@frozen
class Anchor:
    """A block that was too deep to be reorganised when it was noted."""

    block_number: int
    block_hash: bytes = field(repr=lambda value: f"0x{value.hex()}")


@frozen
class LaneNonces:
    """A lane's fence, and the next nonce that the chain, or its pools, has for the signer; None is not agreed."""

    signer: Address
    fence: int
    chain_nonce: int | None


@frozen
class Ours:
    """The chain has the block by which we know it."""


@frozen
class Unknown:
    """No majority told: nothing is concluded."""


@frozen
class Wrong:
    """Another world: what halts the pool, with the evidence."""

    kind: HaltKind
    evidence: Mapping[str, Json]


WorldVerdict: TypeAlias = Ours | Unknown | Wrong


def world_verdict(anchor: Anchor, found: Mapping[int, bytes | None], lanes: Sequence[LaneNonces] = ()) -> WorldVerdict:
    """Judge by the block that a majority has at the anchor's height; None there says that it has none.

    A reorganisation does not reach that deep, and a majority that lags so far behind is no chain to send to either:
    that halt ends by itself when the block is there again. With another block it is a chain that began anew where it
    knows fewer nonces than our fences; where it knows as many, another chain altogether.
    """
    if anchor.block_number not in found:
        return Unknown()
    now = found[anchor.block_number]
    if now == anchor.block_hash:
        return Ours()
    evidence: dict[str, Json] = {
        "block_number": anchor.block_number,
        "known_hash": f"0x{anchor.block_hash.hex()}",
        "found_hash": None if now is None else f"0x{now.hex()}",
        "lanes": [_shown(lane) for lane in lanes],
    }
    is_behind = now is None or any(lane.chain_nonce is not None and lane.chain_nonce < lane.fence for lane in lanes)
    return Wrong("chain_reset" if is_behind else "chain_unknown", evidence)


def ahead_verdict(lanes: Sequence[LaneNonces]) -> WorldVerdict:
    """Judge a start at which nobody else of the pool runs: nonces above the fence were used by somebody else meanwhile,
    or by us and forgotten by a database restored from a backup. The two look alike, and in the second case the jobs
    that the backup restored would take effect twice.
    """
    ahead = [lane for lane in lanes if lane.chain_nonce is not None and lane.chain_nonce > lane.fence]
    if any(lane.chain_nonce is None for lane in lanes):
        return Unknown()
    if not ahead:
        return Ours()
    return Wrong("chain_ahead", {"lanes": [_shown(lane) for lane in ahead]})


def _shown(lane: LaneNonces) -> dict[str, Json]:
    return {"signer": str(lane.signer), "fence": lane.fence, "chain_nonce": lane.chain_nonce}
