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


class BroadcastDoubtful(TransactionError):
    """No node is known to have taken the bytes. They stay in the journal; the next attempt sends the same again."""

    def __init__(self, tx_hash: bytes, answer: str, detail: str) -> None:
        super().__init__(f"sending {tx_hash.hex()} ended in {answer!r}: {detail}; the same bytes will be sent again")
        self.answer = answer


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


class LineageDrifted(TransactionError):
    """A lineage changed between two statements that must see it alike; the whole change was rolled back."""


class NoLaneOpen(TransactionError):
    """Every lane of the pool is closed or full. Nothing was allocated."""


class NoLongerUnsigned(TransactionError):
    """Another replica signed the filler first. Nothing was written."""
