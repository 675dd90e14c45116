"""Intents of the reference protocol: what a session key signs, as values (INT-2)."""

from __future__ import annotations

from enum import IntEnum

from attrs import frozen

from tayho.kernel.address import Address
from tayho.kernel.json_document import Json
from tayho.protocol import typed_data
from tayho.protocol.typed_data import Field

INTENT = "Intent"
INTENT_TYPES = {
    INTENT: (
        Field("account", "address"),
        Field("action", "uint8"),
        Field("market", "bytes32"),
        Field("payload", "bytes"),
        Field("salt", "uint256"),
        Field("deadline", "uint256"),
    )
}


class Action(IntEnum):
    """What an intent may do; the numbers are the contract's, and each is a bit of a session's permissions."""

    PLACE_ORDER = 0
    CANCEL_ORDER = 1
    CLAIM = 2
    WITHDRAW = 3


@frozen
class IntentDomain:
    """The protocol that an intent is for: its chain and its contract."""

    chain_id: int
    protocol: Address

    def document(self) -> dict[str, Json]:
        """The EIP-712 domain."""
        return {
            "name": "tayho reference protocol",
            "version": "1",
            "chainId": self.chain_id,
            "verifyingContract": str(self.protocol),
        }


@frozen
class Intent:
    """One wish of an account. The contract refuses it after `deadline`, in seconds since 1970."""

    account: Address
    action: int
    market: bytes
    payload: bytes
    salt: int
    deadline: int

    def document(self) -> dict[str, Json]:
        """The EIP-712 message. Integers are text: JSON readers elsewhere lose digits beyond 2**53."""
        return {
            "account": str(self.account),
            "action": self.action,
            "market": f"0x{self.market.hex()}",
            "payload": f"0x{self.payload.hex()}",
            "salt": str(self.salt),
            "deadline": str(self.deadline),
        }

    def arguments(self) -> tuple[object, ...]:
        """The struct as the contract's functions take it."""
        return (self.account, self.action, self.market, self.payload, self.salt, self.deadline)

    def digest(self, domain: IntentDomain) -> bytes:
        """What is signed, and what names the intent for ever. Raises TypedDataRefused for a value out of its type."""
        return typed_data.digest(domain.document(), INTENT, INTENT_TYPES, self.document())
