"""What the transaction engine refuses or leaves in doubt, one class each."""

from __future__ import annotations

from uuid import UUID

from tayho.kernel.address import Address


class TransactionError(Exception):
    """Base of the engine's own refusals."""


class LaneTaken(TransactionError):
    """The signer's lane belongs to another pool: its nonces are not ours to take."""

    def __init__(self, signer: Address, environment: str, role: str) -> None:
        super().__init__(
            f"signer {signer} already serves role {role!r} in environment {environment!r} on this chain: "
            "give this role a key of its own, for two pools cannot share one nonce stream"
        )


class MarketAboveCeiling(TransactionError):
    """The base fee, or gas price, is above TX_MAX_FEE_PER_GAS_WEI: nothing that could be mined may be signed."""

    def __init__(self, market_wei: int, fee_wei_max: int) -> None:
        super().__init__(
            f"the chain asks {market_wei} wei per gas and TX_MAX_FEE_PER_GAS_WEI is {fee_wei_max}: "
            "wait, or raise the ceiling"
        )


class MarketAbsurd(TransactionError):
    """A node tells of fees that cannot be: nothing is offered on its word. Another node, or the next block, may do."""


class EstimateAbsurd(TransactionError):
    """A node's estimate of gas cannot be true: nothing is signed on its word."""


class GasBeyondCap(TransactionError):
    """The call must have more gas than a transaction, or the present block, can have: nothing is signed."""

    def __init__(self, gas_limit_min: int, cap: int) -> None:
        super().__init__(
            f"the call must have {gas_limit_min} gas and a transaction can have {cap} now: ask for less in one call"
        )


class LineageDrifted(TransactionError):
    """A lineage changed between two statements that must see it alike; the whole change was rolled back."""


class NoLaneOpen(TransactionError):
    """Every lane of the pool is closed or full. Nothing was allocated."""


class NoLongerUnsigned(TransactionError):
    """Another replica signed the filler first. Nothing was written."""


class PoolHalted(TransactionError):
    """A halt of the pool is open: nothing is signed, sent or finalised. Nothing was changed."""

    def __init__(self, kinds: tuple[str, ...] = ()) -> None:
        told = f" ({', '.join(kinds)})" if kinds else ""
        super().__init__(f"the pool is halted{told}: see /readyz, then `tayho world adopt` or `tayho world restart`")
        self.kinds = kinds


class NothingHalted(TransactionError):
    """No halt of the pool is open: there is nothing to resolve."""

    def __init__(self, role: str, environment: str) -> None:
        super().__init__(f"no halt of role {role!r} in environment {environment!r} is open: nothing to resolve")


class WorldUnseen(TransactionError):
    """No majority of the endpoints shows the chain whole: an act on it would be a guess."""

    def __init__(self, detail: str) -> None:
        super().__init__(f"a majority of the endpoints must show the chain, and does not: {detail or 'no block'}")


class WrongRemedy(TransactionError):
    """The chain did not begin anew: it still has the block by which it is known."""

    def __init__(self, block_number: int, block_hash: bytes) -> None:
        super().__init__(
            f"the chain still has block {block_number} as 0x{block_hash.hex()}: it did not begin anew, and "
            "what is open may still be mined; `tayho world adopt` goes on with it"
        )


class ActRefused(TransactionError):
    """An operator asked for what cannot be done to the lineage. Nothing was changed."""


class LineageUnknown(ActRefused):
    """Nothing of that name is in the journal of this chain and environment."""

    def __init__(self, named: UUID | bytes) -> None:
        shown = f"0x{named.hex()}" if isinstance(named, bytes) else str(named)
        super().__init__(f"{shown} is no lineage, no job with one and no transaction of this CHAIN_ID and ENVIRONMENT")


class LineageEnded(ActRefused):
    """The lineage's end is decided."""

    def __init__(self, lineage_id: UUID, state: str, mined_tx_hash: bytes | None) -> None:
        how = f" by 0x{mined_tx_hash.hex()}" if mined_tx_hash is not None else ""
        super().__init__(f"lineage {lineage_id} has ended: {state}{how}; there is nothing left to replace")
        self.state = state


class UnderBlock(ActRefused):
    """A block holds one of its transactions: the nonce is used, unless the chain reorganises."""

    def __init__(self, lineage_id: UUID, block_number: int) -> None:
        super().__init__(
            f"lineage {lineage_id} is mined in block {block_number} and not final yet: no replacement can be mined"
        )


class FillerNeeded(ActRefused):
    """A filler is a transfer of nothing to oneself already: there is nothing to cancel."""

    def __init__(self, lineage_id: UUID, nonce: int) -> None:
        super().__init__(f"lineage {lineage_id} fills nonce {nonce} and does nothing else: bump it if it is stuck")


class NothingSigned(ActRefused):
    """There is no fee to raise yet."""

    def __init__(self, lineage_id: UUID) -> None:
        super().__init__(f"lineage {lineage_id} is not signed yet: its next attempt signs at the market's fee")


class RotationRefused(TransactionError):
    """An operator asked for what may not be of a signer or of its pool. Nothing was changed."""


class LaneUnknown(RotationRefused):
    """No lane of this chain and environment is the signer's."""

    def __init__(self, signer: Address) -> None:
        super().__init__(f"{signer} has no lane in this CHAIN_ID and ENVIRONMENT: `tayho lanes` lists those that do")


class PoolUnknown(RotationRefused):
    """No process of the role has ever registered lanes."""

    def __init__(self, environment: str, role: str) -> None:
        super().__init__(f"there is no pool {environment}:{role} on this chain: its first start makes it")


class SignerRetired(RotationRefused):
    """The signer has left its pool, for ever."""

    def __init__(self, signer: Address) -> None:
        super().__init__(f"{signer} is retired: no nonce is ever taken from it again; take another key")


class SignerTaken(RotationRefused):
    """The signer has a lane already, here or in another pool."""

    def __init__(self, signer: Address, environment: str, role: str) -> None:
        super().__init__(f"{signer} is a signer of {environment}:{role} on this chain")


class LaneNotDraining(RotationRefused):
    """The lane still takes new nonces, or may at any moment."""

    def __init__(self, signer: Address, state: str) -> None:
        super().__init__(f"the lane of {signer} is {state}: `tayho jobs signer-drain {signer} SECONDS` first")


class StillOpen(RotationRefused):
    """The lane has transactions that are not final."""

    def __init__(self, signer: Address, lineages: int) -> None:
        super().__init__(f"{lineages} transactions of {signer} are not final: check it again when they are")


class CheckMissing(RotationRefused):
    """No check of the signer has passed lately enough."""

    def __init__(self, signer: Address, why: str) -> None:
        super().__init__(
            f"{signer} may not be retired: {why}; `tayho jobs signer-retire-check {signer}` must have passed at most "
            "15 minutes before"
        )


class NonceUnsettled(RotationRefused):
    """The new signer's nonce is not agreed, or its account has transactions that are not in a block."""

    def __init__(self, signer: Address, why: str) -> None:
        super().__init__(f"{signer} cannot take a place now: {why}")
