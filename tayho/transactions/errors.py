"""What the transaction engine refuses or leaves in doubt, one class each."""

from __future__ import annotations

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
    """The chain's base fee is above TX_MAX_FEE_PER_GAS_WEI: nothing that could be mined may be signed."""

    def __init__(self, base_fee_wei: int, fee_wei_max: int) -> None:
        super().__init__(
            f"the base fee is {base_fee_wei} wei and TX_MAX_FEE_PER_GAS_WEI {fee_wei_max}: wait, or raise the ceiling"
        )


class ChainUnsupported(TransactionError):
    """The chain's headers carry no base fee (before EIP-1559)."""

    def __init__(self, chain_id: int) -> None:
        super().__init__(f"chain {chain_id} has no base fee: only chains with EIP-1559 are served")


class LineageDrifted(TransactionError):
    """A lineage changed between two statements that must see it alike; the whole change was rolled back."""


class NoLaneOpen(TransactionError):
    """Every lane of the pool is closed or full. Nothing was allocated."""


class NoLongerUnsigned(TransactionError):
    """Another replica signed the filler first. Nothing was written."""
